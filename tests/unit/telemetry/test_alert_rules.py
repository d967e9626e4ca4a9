"""docs/alerts.yaml can be loaded, is about metrics that there are, and leads to what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

import services.ledger.moves
import services.payment.charge_states
import services.payment.webhooks
import surefoot.idempotency.metrics
from tests.support.corpus import each_of

ROOT = Path(__file__).parents[3]
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((ROOT / "docs" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
MODULES = (
    surefoot.idempotency.metrics,
    services.payment.charge_states,
    services.payment.webhooks,
    services.ledger.moves,
)


def exported(*modules: ModuleType) -> dict[str, set[str]]:
    """The names under which the modules' metrics can be asked for, with their labels."""
    found: dict[str, set[str]] = {}
    for metric in (value for module in modules for value in vars(module).values()):
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            name = f"{described.name}_total" if described.type == "counter" else described.name
            found[name] = set(metric._labelnames)
    return found


def problems(rule: dict[str, Any], known: dict[str, set[str]]) -> Iterator[str]:
    names = set(re.findall(r"\bsurefoot_\w+", rule["expr"]))
    labels = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"", rule["expr"]))
    labels |= {label for group in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in re.split(r",\s*", group)}
    told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    if not names:
        yield "it watches nothing"
    for name in names:
        if name not in known:
            yield f"there is no {name}"
        elif not labels | told <= known[name]:
            yield f"{name} has no {(labels | told) - known[name]}"


@each_of("rule", RULES, named=lambda rule: rule["alert"], expected=10)
def test_every_rule_is_about_metrics_and_labels_that_are_exported(rule: dict[str, Any]) -> None:
    assert list(problems(rule, exported(*MODULES))) == []
    assert rule["labels"]["severity"] in ("page", "warning", "info")


@each_of("rule", RULES, named=lambda rule: rule["alert"], expected=10)
def test_every_rule_leads_to_what_to_do(rule: dict[str, Any]) -> None:
    page, anchor = rule["annotations"]["runbook"].split("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert f"`{rule['alert']}`" in (ROOT / page).read_text()


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("max(surefoot_idempotency_stucks) > 0", "there is no surefoot_idempotency_stucks"),
        ("increase(surefoot_idempotency_exhausted[5m]) > 0", "there is no surefoot_idempotency_exhausted"),
        ("sum by (tenant) (surefoot_idempotency_claims_total)", "surefoot_idempotency_claims_total has no {'tenant'}"),
        ('surefoot_idempotency_stuck{route="x"} > 0', "surefoot_idempotency_stuck has no {'route'}"),
        ("up == 0", "it watches nothing"),
    ],
)
def test_a_rule_about_what_is_not_there_would_be_noticed(expr: str, problem: str) -> None:
    rule = {"expr": expr, "annotations": {"summary": ""}}
    assert list(problems(rule, exported(*MODULES))) == [problem]

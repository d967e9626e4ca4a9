"""docs/alerts.yaml can be loaded, is about metrics that there are, leads to what to do, and has tests of its own."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql_parser import VectorSelector, parse

from tests.support.corpus import each_of
from tests.support.promql import OF_A_TARGET, Asked, exported

ROOT = Path(__file__).parents[3]
GROUPS: list[dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "alerts.yaml").read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
RULE_TESTS = sorted((ROOT / "deploy" / "prometheus").glob("*_test.yaml"))
CASES: list[dict[str, Any]] = [case for path in RULE_TESTS for case in yaml.safe_load(path.read_text())["tests"]]
COUNT = 47
PROMTOOL = shutil.which("promtool")


def named(rule: dict[str, Any]) -> str:
    return str(rule["alert"])


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_part_has_rules_and_no_name_is_there_twice() -> None:
    parts = {group["name"].removeprefix("surefoot-") for group in GROUPS}
    assert {"relay", "consumers", "sagas", "dead-letters", "idempotency"} <= parts
    assert len({rule["alert"] for rule in RULES}) == len(RULES) == COUNT


@each_of("rule", RULES, named=named, expected=COUNT)
def test_every_rule_is_about_metrics_and_labels_that_are_exported(rule: dict[str, Any]) -> None:
    asked = Asked(rule["expr"])
    assert asked.problems == []
    told = " ".join((rule["annotations"]["summary"], rule["annotations"]["description"]))
    assert set(re.findall(r"\$labels\.(\w+)", told)) <= asked.labels


@each_of("rule", RULES, named=named, expected=COUNT)
def test_every_rule_is_whole(rule: dict[str, Any]) -> None:
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[mhd]", rule["for"])
    assert rule["labels"]["severity"] in ("page", "warning", "info")
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert all(text.endswith(".") for key, text in rule["annotations"].items() if key != "runbook_url")


@each_of("rule", RULES, named=named, expected=COUNT)
def test_every_rule_leads_to_what_to_do(rule: dict[str, Any]) -> None:
    page, anchor = rule["annotations"]["runbook_url"].split("#")
    assert anchor in anchors(ROOT / page)
    assert f"`{rule['alert']}`" in (ROOT / page).read_text()


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("max(surefoot_idempotency_stucks) > 0", "there is no surefoot_idempotency_stucks"),
        ("increase(surefoot_idempotency_exhausted[5m]) > 0", "there is no surefoot_idempotency_exhausted"),
        ("sum by (tenant) (surefoot_idempotency_claims_total)", "no tenant is left to go by"),
        ('surefoot_sagas_open{route="failed"} > 0', "surefoot_sagas_open has no route"),
        ('surefoot_sagas_open{status="STUK"} > 0', "nothing is ever STUK"),
        ("sum by (saga) (surefoot_sagas_open) > sum(surefoot_sagas_open)", "saga is on one side only"),
        ("histogram_quantile(0.9, sum(surefoot_relay_round_seconds_bucket))", "a quantile needs le"),
        ("up == 0", "there is no up"),
        ("vector(1) > 0", "it watches nothing"),
    ],
)
def test_a_rule_about_what_is_not_there_would_be_noticed(expr: str, problem: str) -> None:
    assert Asked(expr).problems == [problem]


def test_a_broken_expression_would_be_noticed() -> None:
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        parse("sum by (topic) (increase(surefoot_relay_failed_total[10m]) > 0")


def test_every_kind_of_metric_is_known_as_prometheus_stores_it() -> None:
    known = exported()
    assert known["surefoot_relay_published_total"] == {"topic"}
    assert known["surefoot_sagas_ended_total"] == {"saga", "status"}
    assert known["surefoot_sagas_open"] == {"saga", "status"}
    assert known["surefoot_relay_round_seconds_bucket"] == {"part", "le"}
    assert "surefoot_relay_round_seconds" not in known


@each_of("rule", RULES, named=named, expected=COUNT)
def test_every_rule_has_a_test_in_which_it_fires_and_one_in_which_it_is_silent(rule: dict[str, Any]) -> None:
    """Its input is about the rule's own metrics. The tests themselves are run by promtool, below."""
    cases = [case for case in CASES if case["name"] == rule["alert"]]
    checks = [check for case in cases for check in case["promql_expr_test"]]
    assert {bool(check["exp_samples"]) for check in checks} == {True, False}
    assert all(f'alertname="{rule["alert"]}"' in check["expr"] for check in checks)
    fired = [sample["labels"] for check in checks for sample in check["exp_samples"]]
    assert all(f'severity="{rule["labels"]["severity"]}"' in labels for labels in fired)
    watched = Asked(rule["expr"]).names
    for series in (parse(series["series"]) for case in cases for series in case["input_series"]):
        assert isinstance(series, VectorSelector)
        assert series.name in watched
        assert {matcher.name for matcher in series.matchers.matchers} == exported()[series.name] | OF_A_TARGET


@pytest.mark.slow
@pytest.mark.skipif(
    PROMTOOL is None,
    reason="there is no promtool on the PATH; the tests above have parsed every rule and looked up what it asks for",
)
@each_of("path", RULE_TESTS, named=lambda path: path.name, expected=7)
def test_prometheus_itself_finds_every_rule_right_where_it_is_installed(path: Path) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "test", "rules", path.name], cwd=path.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

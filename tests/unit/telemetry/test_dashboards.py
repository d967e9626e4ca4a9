"""The dashboards in deploy/grafana/ are what their table says, and ask for metrics and labels that are exported."""

import json
import re
from pathlib import Path
from typing import Any

from deploy.grafana.dashboards import DASHBOARDS, FOLDER, WIDTH, write
from tests.support.corpus import each_of
from tests.support.promql import Asked, exported

NAMES = {"overview", "relay", "consumers", "sagas", "dead-letters", "requests"}
UNITS = {"short", "s", "ops", "reqps", "percentunit"}
COUNT = 75
LEFT_OUT: frozenset[str] = frozenset()
"""Metrics that no panel shows, because nobody would look at them over time."""
MODELS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
PANELS = [(name, panel) for name, model in MODELS.items() for panel in model["panels"]]


def named(name: str, panel: dict[str, Any]) -> str:
    return f"{name}: {panel['title']}"


def asked(expr: str) -> Asked:
    return Asked(expr.replace("$__rate_interval", "5m"))


def test_the_files_are_what_the_table_makes(tmp_path: Path) -> None:
    """If this fails, you have changed the table: python -m deploy.grafana.dashboards writes the files."""
    write(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        path.name: path.read_text() for path in FOLDER.glob("*.json")
    }


def test_there_are_six_and_each_has_its_own_name() -> None:
    assert MODELS.keys() == {dashboard.name for dashboard in DASHBOARDS} == NAMES
    assert len({model["uid"] for model in MODELS.values()}) == len({model["title"] for model in MODELS.values()}) == 6


@each_of(["name", "panel"], PANELS, named=named, expected=COUNT)
def test_every_panel_asks_for_metrics_and_labels_that_are_exported(name: str, panel: dict[str, Any]) -> None:
    variables = {variable["name"] for variable in MODELS[name]["templating"]["list"]} | {"__rate_interval"}
    for target in panel["targets"]:
        found = asked(target["expr"])
        assert found.problems == []
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= found.labels
        assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables


@each_of(["name", "panel"], PANELS, named=named, expected=COUNT)
def test_every_panel_says_what_it_tells_and_its_lines_can_be_told_apart(name: str, panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    legends = [target["legendFormat"] for target in panel["targets"]]
    assert all(legends)
    assert len(set(legends)) == len(legends)
    if panel["type"] == "stat":
        assert len(legends) == 1


@each_of("model", MODELS.values(), named=lambda model: model["title"], expected=6)
def test_no_panel_covers_another_or_leaves_the_page(model: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in model["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + right, at["y"] + down) for right in range(at["w"]) for down in range(at["h"])}
        assert at["x"] + at["w"] <= WIDTH
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in model["panels"]}) == len(model["panels"])


@each_of("model", MODELS.values(), named=lambda model: model["title"], expected=6)
def test_every_choice_is_among_the_values_of_a_label_that_its_metric_has(model: dict[str, Any]) -> None:
    for variable in model["templating"]["list"][1:]:
        choice = re.fullmatch(r'label_values\((\w+)(?:{job=~"\$job"})?, (\w+)\)', variable["query"])
        assert choice is not None
        assert choice[2] == variable["name"]
        assert choice[2] == "job" or choice[2] in exported()[choice[1]]


def test_every_metric_is_on_a_panel() -> None:
    shown = {name for _, panel in PANELS for target in panel["targets"] for name in asked(target["expr"]).names}
    by_buckets = {f"{name.removesuffix('_bucket')}_{part}" for name in shown for part in ("sum", "count")}
    assert sorted(exported().keys() - shown - by_buckets - LEFT_OUT) == []

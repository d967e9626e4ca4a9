"""Writes the dashboards for Grafana from the table in `panels.py`: `python -m deploy.grafana.dashboards`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.grafana.more_panels import DEAD_LETTERS, REQUESTS, SAGAS
from deploy.grafana.panels import CONSUMERS, OVERVIEW, RELAY, Dashboard, Panel, Query

FOLDER = Path(__file__).parent
DASHBOARDS = (OVERVIEW, RELAY, CONSUMERS, SAGAS, DEAD_LETTERS, REQUESTS)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
NUMBER_SIZE, LINES_SIZE = (3, 4), (8, 8)
"""Width and height of a panel; a row is 24 wide."""


def write(folder: Path = FOLDER) -> None:
    for dashboard in DASHBOARDS:
        (folder / f"{dashboard.name}.json").write_text(text_of(dashboard))


def text_of(dashboard: Dashboard) -> str:
    """One line for each panel, so that a change of the table is as small in the file."""
    whole = model_of(dashboard)
    lines = [f'"{key}": {json.dumps(value)}' for key, value in whole.items() if key != "panels"]
    panels = ",\n".join(json.dumps(panel) for panel in whole["panels"])
    return "{\n" + ",\n".join(lines) + ',\n"panels": [\n' + panels + "\n]\n}\n"


def model_of(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"surefoot-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["surefoot"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "graphTooltip": 1,
        "links": [{"type": "dashboards", "title": "Surefoot", "tags": ["surefoot"], "keepTime": True}],
        "templating": {"list": list(_variables(dashboard))},
        "panels": list(_panels(dashboard)),
    }


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for label, metric in {"job": dashboard.known_by, **dashboard.choices}.items():
        within = "" if label == "job" else '{job=~"$job"}'
        yield {
            "name": label,
            "type": "query",
            "datasource": SOURCE,
            "query": f"label_values({metric}{within}, {label})",
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """Numbers and lines from left to right; what does not fit into a row begins the next one."""
    x = y = height = 0
    for number, panel in enumerate(dashboard.panels, start=1):
        w, h = NUMBER_SIZE if panel.is_number else LINES_SIZE
        if x + w > WIDTH or (x > 0 and h != height):
            x, y = 0, y + height
        yield {"id": number, "gridPos": {"x": x, "y": y, "w": w, "h": h}, **_panel(panel)}
        x, height = x + w, h


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + place),
            "datasource": SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend if len(panel.queries) == 1 else _told_apart(query),
        }
        for place, query in enumerate(panel.queries)
    ]
    return {
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.tells,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _told_apart(query: Query) -> str:
    return query.legend if query.legend == query.of else f"{query.of} {query.legend}"


if __name__ == "__main__":
    write()

"""Keeps what a run of a target has shown in `build/evidence`: the table in docs/testing.md is made from it."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.evidence import DIRECTORY, Shown, recorded

KEPT = Path(__file__).parents[2] / "build" / "evidence"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--target")
    if target is None or hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    shown = sorted(set(recorded(Path(os.environ[DIRECTORY]))), key=_order)
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{target}.json").write_text(json.dumps([asdict(one) for one in shown], indent=1) + "\n")


def _order(one: Shown) -> tuple[str, str, str]:
    return one.name, one.kind, one.test

"""Fixtures of the consumer tests: a database with a table of effects, the Postgres log, a topic."""

from pathlib import Path

import pytest

from tests.support.consumer.fixtures import connection, log, topic

__all__ = ["connection", "log", "topic"]

HERE = Path(__file__).parent
# The fast tests have one of each kind from here; each of the others starts a consumer, and there are many.
ALSO_FAST = ("test_once.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name not in ALSO_FAST:
            item.add_marker(pytest.mark.slow)

"""The Postgres log's settings come from the environment, and a bad one is a sentence."""

import os
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from surefoot.log.opening import LogSettings, open_log
from surefoot.log.port import TopicSpec
from tests.support import processes


async def test_the_lease_in_the_environment_is_the_lease_that_is_taken(
    database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUREFOOT_LOG_LEASE", "PT90S")
    log = open_log(None, database_url)
    await log.create([TopicSpec("things", 2, timedelta(hours=1), 100_000)])
    subscription = await log.subscribe("group", ["things"])
    try:
        taken = await connection.fetch("SELECT lease_until - taken_at FROM surefoot.leases WHERE scope LIKE 'log/%'")
    finally:
        await subscription.close()
        await log.close()

    spans = [row[0] for row in taken]  # a heartbeat that came between has moved the end a little
    assert len(spans) == 2
    assert all(timedelta(seconds=90) <= span < timedelta(seconds=95) for span in spans), spans


def test_it_is_ten_seconds_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_LOG_LEASE", "")
    assert LogSettings().lease == timedelta(seconds=10)


def test_it_does_not_change_once_it_was_read() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        LogSettings().lease = timedelta(seconds=1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("nonsense", "SUREFOOT_LOG_LEASE cannot be used: Input should be a valid timedelta"),
        ("PT0.1S", "The log's lease of 0:00:00.100000 is too short to be renewed in time: take 300 ms at least"),
    ],
)
def test_a_lease_that_cannot_be_used_is_a_sentence(given: str, sentence: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}
    done = processes.run(
        ["surefoot", "tail", "things", "--database", "postgresql://nobody@127.0.0.1:1/none"],
        environment={**environment, "SUREFOOT_LOG_LEASE": given},
    )

    assert done.err.startswith(sentence)
    assert "Traceback" not in done.err
    assert done.code == 2

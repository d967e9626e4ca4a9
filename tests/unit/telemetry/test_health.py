"""The health of a process: what its parts say, put together."""

from collections.abc import Iterable

import pytest

from surefoot.telemetry.health import Finding, Health, merged

GOOD = Finding("database", True, "the database answers")
BAD = Finding("database", False, "the database has been away for 3 s")
UNKNOWN = Finding("database", None, "the database has not answered yet")


class Part:
    def __init__(self, *findings: Finding) -> None:
        self.findings = findings

    def readiness(self) -> Iterable[Finding]:
        return self.findings


def ready_with(*findings: Finding) -> bool:
    health = Health()
    health.watch(Part(*findings))
    return health.ready().ok


@pytest.mark.parametrize(
    ("found", "ok", "sentence"),
    [
        ([GOOD], True, GOOD.sentence),
        ([GOOD, BAD], False, BAD.sentence),
        ([UNKNOWN, GOOD], True, GOOD.sentence),
        ([UNKNOWN, BAD], False, BAD.sentence),
        ([UNKNOWN], False, UNKNOWN.sentence),
        ([BAD, Finding("database", False, "a lock is away"), BAD], False, f"{BAD.sentence}; a lock is away"),
    ],
)
def test_what_one_part_finds_wrong_is_wrong_and_what_it_does_not_know_others_may_know(
    found: list[Finding], ok: bool, sentence: str
) -> None:
    assert merged(found) == [Finding("database", ok, sentence)]


def test_a_process_is_ready_when_all_of_its_checks_are() -> None:
    log = Finding("log", True, "the event log answers")
    assert ready_with(GOOD, log)
    assert not ready_with(BAD, log)
    assert not ready_with(UNKNOWN, log)


def test_a_process_that_has_only_begun_lives_and_is_not_ready() -> None:
    health = Health()
    assert health.live().ok
    assert health.ready().body == {
        "status": "not ready",
        "checks": [
            {"name": "process", "ok": False, "sentence": "the process starts"},
            {"name": "event loop", "ok": True, "sentence": "the event loop turns"},
        ],
    }


def test_a_process_that_is_to_stop_lives_and_is_not_ready() -> None:
    health = Health()
    health.watch(Part(GOOD))
    health.stopping()
    assert health.live().ok
    assert not health.ready().ok

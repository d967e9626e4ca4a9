"""An undo that always fails: the saga is STUCK within its bound, in front of an operator, and goes on when told to."""

import pytest

from surefoot.orchestrator.operators import operate
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.store import Store
from surefoot.saga.stimulus import Operated
from tests.support.checkers.saga import Line
from tests.support.saga.crash_app import sagas
from tests.support.saga.crash_harness import Ground, OrchestratorProcess
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.saga.crash_fixtures"]
pytestmark = pytest.mark.slow


@pytest.mark.kafka
@pytest.mark.promise("P4")
async def test_an_undo_that_always_fails_is_stuck_and_a_retry_ends_it(kafka_stage: Ground) -> None:
    ground = kafka_stage
    ground.service.will("t-1", "charge", "silent")
    ground.service.will("t-1", "charge", "die", "undo")
    await ground.request("t-1", "t-2")
    await ground.start(attempts=1)
    await ground.become({"t-1": "STUCK", "t-2": "COMPLETED"})
    assert await ground.findings() == []
    assert await ground.effects("t-1") == ["do book", "do charge"]
    assert [line for line in await ground.history("t-1") if line.startswith("SENT charge undo")] == [
        "SENT charge undo 1",
        "SENT charge undo 2",
        "SENT charge undo 3",
    ]
    stuck = await ground.connection.fetch("SELECT * FROM surefoot.stuck_sagas")
    assert [(row["entity_id"], row["current_step"], row["current_direction"], row["reason"]) for row in stuck] == [
        ("t-1", "charge", "undo", "charge could not be undone in 3 attempts. the agency is on fire")
    ]

    ground.service.deeds.clear()
    store = Store(Registry(sagas), "surefoot")
    healed = Operated("retry", "an operator", "the fire is out", step="charge")
    await operate(ground.connection, store, str(stuck[0]["saga_id"]), healed)
    await ground.become({"t-1": "COMPENSATED", "t-2": "COMPLETED"})
    assert await ground.findings() == []
    assert await ground.effects("t-1") == ["do book", "do charge", "undo charge", "undo book"]
    assert await ground.connection.fetchval("SELECT count(*) FROM surefoot.stuck_sagas") == 0
    assert await retried(ground) == [("charge", "undo")]


async def test_a_saga_whose_next_attempt_cannot_be_worked_out_keeps_no_other_waiting(postgres_stage: Ground) -> None:
    """A function of the definition raises when a timer is due: that saga waits, and goes on when it is mended."""
    ground = postgres_stage
    for trip in ("t-1", "t-2"):
        ground.service.will(trip, "charge", "silent")
    orchestrator = await ground.start(timeout_s=0.5, attempts=2)
    await ground.request("t-1")
    await ground.waits_for("t-1", "charge")
    ground.poison.write_text("t-1")
    await eventually(lambda: says_so(orchestrator), what="the next attempt cannot be worked out")
    await ground.request("t-2", "t-3")
    await ground.become({"t-1": "RUNNING", "t-2": "COMPENSATED", "t-3": "COMPLETED"})
    ground.poison.unlink()
    await ground.become({"t-1": "COMPENSATED", "t-2": "COMPENSATED", "t-3": "COMPLETED"})
    assert await ground.findings() == []


async def says_so(orchestrator: OrchestratorProcess) -> bool:
    assert orchestrator.process.returncode is None, orchestrator.log.read_text()
    return "nobody knows how to charge for t-1" in orchestrator.log.read_text()


async def retried(ground: Ground) -> list[tuple[str | None, str | None]]:
    lines: list[Line] = (await ground.rows())[1]
    return [(line.step, line.direction) for line in lines if line.kind == "RETRIED"]

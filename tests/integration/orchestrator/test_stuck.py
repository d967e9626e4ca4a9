"""A saga that is stuck is not silent: somebody is told of it, once."""

from datetime import timedelta

from structlog.testing import capture_logs

from surefoot.orchestrator.housekeeping import Housekeeping
from surefoot.orchestrator.settings import OrchestratorSettings
from tests.support.saga.orchestrators import Stage, on_stage
from tests.support.saga.trips import Agency, TripRequested, agency_consumer, trip_saga


async def test_somebody_is_told_of_a_stuck_saga_once(stage: Stage, agency: Agency) -> None:
    agency.will("t-1", "confirm", "die")
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)], housekeeping=timedelta(minutes=1)):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "STUCK")
    house = Housekeeping(stage.url, OrchestratorSettings())
    with capture_logs() as lines:
        await house.once(stage.connection)
        await house.once(stage.connection)
    told = [line for line in lines if line.get("alert") == "saga_stuck"]
    assert [(line["entity"], line["step"]) for line in told] == [("t-1", "do confirm")]
    assert "nobody knows whether it was done. the agency is on fire" in told[0]["event"]


async def test_sagas_that_ended_long_ago_go_with_their_history(stage: Stage, agency: Agency) -> None:
    async with on_stage(stage, [trip_saga()], [agency_consumer(agency)], housekeeping=timedelta(minutes=1)):
        await stage.publish(TripRequested(trip_id="old"), TripRequested(trip_id="new"))
        await stage.becomes("old", "COMPLETED")
        await stage.becomes("new", "COMPLETED")
    await stage.connection.execute(
        "UPDATE surefoot.saga_instances SET ended_at = now() - interval '91 days' WHERE entity_id = 'old'"
    )
    house = Housekeeping(stage.url, OrchestratorSettings())
    assert await house.once(stage.connection) == 1
    assert await stage.statuses() == {"new": "COMPLETED"}
    kept = await stage.connection.fetchval("SELECT count(DISTINCT saga_id) FROM surefoot.saga_history")
    assert kept == 1

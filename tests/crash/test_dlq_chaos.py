"""One request replays very many dead letters, while the service is killed again and again, the consumer is away for a
while, or somebody changes their mind: each effect once, in order per key, and the job ends with counts that add up.

10,000 dead letters with SUREFOOT_SOAK, fewer without.
"""

import os
import random
import signal

import pytest

from tests.support.dlq.crash_harness import DlqGround
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.dlq.crash_fixtures"]
SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
LETTERS, KEYS = (10_000, 600) if SOAK else (1_500, 300)
PATIENCE_S = 1_500 if SOAK else 240
KILLS = 5
pytestmark = [pytest.mark.crowd, pytest.mark.timeout(2 * PATIENCE_S), pytest.mark.promise("P5", "P7")]


async def test_one_request_replays_all_though_the_service_is_killed_five_times_on_the_way(dlq: DlqGround) -> None:
    await replay_while_killed(dlq, seed=1)


@pytest.mark.kafka
async def test_on_kafka_too(kafka_dlq: DlqGround) -> None:
    await replay_while_killed(kafka_dlq, seed=2)


async def replay_while_killed(dlq: DlqGround, seed: int) -> None:
    chance = random.Random(seed)
    await dlq.consume()
    service = await dlq.serve()
    await dlq.die(LETTERS, KEYS)
    await dlq.consumers.heal()
    job_id = await dlq.replay()
    for kill in range(1, KILLS + 1):
        so_far = LETTERS * (kill - 1) // KILLS
        await dlq.has_answers(job_id, so_far + chance.randrange(1, LETTERS // (2 * KILLS)), within_s=PATIENCE_S)
        await dlq.kill(service)
        assert await dlq.answered(job_id) < LETTERS, "it was done before it was killed so often"
        service = await dlq.serve()

    assert await dlq.ended(job_id, within_s=PATIENCE_S) == "DONE"
    assert await dlq.findings() == []
    assert await dlq.statuses() == {"REPLAYED": LETTERS}
    assert await dlq.consumers.effect_count() == LETTERS


async def test_a_consumer_that_is_away_for_a_while_loses_nothing_and_does_nothing_twice(dlq: DlqGround) -> None:
    consumer = await dlq.consume()
    service = await dlq.serve(resend_after="PT0.5S")
    await dlq.die(LETTERS, KEYS)
    await dlq.consumers.heal()
    job_id = await dlq.replay()
    await dlq.has_answers(job_id, LETTERS // 4, within_s=PATIENCE_S)
    consumer.signal(signal.SIGKILL)
    assert await consumer.ended() == -signal.SIGKILL
    await eventually(lambda: sent_again(dlq, job_id), what="a control record without an answer is sent again")
    await dlq.kill(service)
    await dlq.serve(resend_after="PT0.5S")
    await eventually(lambda: sent_again(dlq, job_id, 3), what="and again, by the next service")
    await dlq.consume()

    assert await dlq.ended(job_id, within_s=PATIENCE_S) == "DONE"
    assert await dlq.findings() == []
    assert await dlq.statuses() == {"REPLAYED": LETTERS}


async def test_behind_a_cancel_and_a_discard_no_replay_runs(dlq: DlqGround) -> None:
    """Cancelled in the middle, the rest discarded by two people, the service killed in between and on the way."""
    await dlq.consume()
    service = await dlq.serve()
    await dlq.die(LETTERS, KEYS)
    await dlq.consumers.heal()
    job_id = await dlq.replay()
    await dlq.has_answers(job_id, LETTERS // 4, within_s=PATIENCE_S)
    await dlq.ask("ada", f"/jobs/{job_id}/cancel", {"reason": "they are not wanted any more"})
    await dlq.kill(service)
    service = await dlq.serve()
    assert await dlq.ended(job_id, within_s=PATIENCE_S) == "CANCELLED"

    discard_id = await dlq.discard()
    effects = await dlq.consumers.effect_count()
    await dlq.has_answers(discard_id, 1, within_s=PATIENCE_S)
    await dlq.kill(service)
    await dlq.serve()
    assert await dlq.ended(discard_id, within_s=PATIENCE_S) == "DONE"

    assert await dlq.findings() == []
    statuses = await dlq.statuses()
    assert statuses.keys() == {"REPLAYED", "DISCARDED"}
    assert sum(statuses.values()) == LETTERS
    assert min(statuses.values()) > LETTERS // 10, f"it was not in the middle: {statuses}"
    # Everything that was sent is read: what it does, it has done.
    await dlq.consumers.finished(within_s=PATIENCE_S)
    assert await dlq.consumers.effect_count() == effects == statuses["REPLAYED"]


async def sent_again(dlq: DlqGround, job_id: str, times: int = 2) -> bool:
    most = "SELECT coalesce(max(sends), 0) FROM surefoot.dlq_job_items WHERE job_id = $1::uuid AND state = 'SENT'"
    return bool(await dlq.connection.fetchval(most, job_id) >= times)

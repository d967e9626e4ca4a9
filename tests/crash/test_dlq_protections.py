"""Each protection of the dead-letter service taken out, with the trouble it is there for: the checkers report it. With
the protection in place they report nothing.
"""

import signal

import pytest

from surefoot.audit.people import Person
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.settings import DlqSettings
from tests.support.dlq.crash_harness import DlqGround
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.dlq.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("weakened", "expected"), [("lanes", {"out_of_order"}), ("", set())])
async def test_a_record_that_was_lost_on_the_way_is_passed_by_later_ones_of_its_key_only_without_lanes(
    weakened: str, expected: set[str], dlq: DlqGround
) -> None:
    """Three letters of one key, sent one a second. The service is killed with the first marked and not sent."""
    await dlq.consume()
    first = await dlq.serve()
    await dlq.die(3, keys=1)
    await dlq.end(first)
    await dlq.consumers.heal()

    doomed = await dlq.serve(failpoints="dlq.sender.marked=kill", weakened=weakened)
    await dlq.ask_and_be_cut_off(
        "ada", "/replay", {"filter": {"status": "OPEN"}, "reason": "mended", "rate": 1.0}, key="one"
    )
    assert await doomed.ended() == -signal.SIGKILL, doomed.log.read_text()
    job_id = await the_job(dlq)
    await dlq.serve(weakened=weakened, resend_after="PT5M")
    if weakened:
        await dlq.has_answers(job_id, 2)
    await dlq.connection.execute("UPDATE surefoot.dlq_job_items SET sent_at = NULL WHERE number = 1")  # it is due
    assert await dlq.ended(job_id) == "DONE"
    assert await dlq.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("same_id", {"open_though_done"}), ("", set())])
async def test_a_repeat_is_taken_for_another_decision_only_if_it_has_another_id(
    weakened: str, expected: set[str], dlq: DlqGround
) -> None:
    """The consumer is away until everything was sent twice, and reads both at once."""
    consumer = await dlq.consume()
    await dlq.serve(weakened=weakened, resend_after="PT5M")
    await dlq.die(6, keys=6)
    await dlq.consumers.heal()
    consumer.signal(signal.SIGTERM)
    assert await consumer.ended() == 0
    job_id = await dlq.replay()
    await eventually(lambda: all_sent(dlq, 1), what="everything was sent")
    await dlq.connection.execute("UPDATE surefoot.dlq_job_items SET sent_at = NULL")  # it is due
    await eventually(lambda: all_sent(dlq, 2), what="everything was sent twice")
    await dlq.consume()
    assert await dlq.ended(job_id) == "DONE"
    await dlq.consumers.have_had_effects(list(dlq.consumers.numbers))
    assert await dlq.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("marked_first", {"open_though_done"}), ("", set())])
async def test_what_a_killed_service_had_sent_is_forgotten_by_a_cancel_only_if_it_was_not_marked_first(
    weakened: str, expected: set[str], dlq: DlqGround
) -> None:
    consumer = await dlq.consume()
    first = await dlq.serve()
    await dlq.die(2, keys=2)
    await dlq.end(first)
    await dlq.consumers.heal()
    consumer.signal(signal.SIGTERM)
    assert await consumer.ended() == 0

    doomed = await dlq.serve(failpoints="dlq.sender.published=kill", weakened=weakened)
    await dlq.ask_and_be_cut_off("ada", "/replay", {"filter": {"status": "OPEN"}, "reason": "mended"}, key="one")
    assert await doomed.ended() == -signal.SIGKILL, doomed.log.read_text()
    job_id = await the_job(dlq)
    async with dlq.connection.transaction():
        verbs = Jobs(dlq.connection, "surefoot", DlqSettings())
        await verbs.cancel(Person("ada", "OPERATOR"), job_id, "not these")
    await dlq.serve()
    await dlq.consume()
    assert await dlq.ended(job_id) == "CANCELLED"
    await dlq.consumers.have_had_effects(list(dlq.consumers.numbers))
    assert await dlq.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("waits_for_answers", {"open_though_done"}), ("", set())])
async def test_a_cancel_opens_what_is_being_replayed_only_if_it_does_not_wait_for_the_answer(
    weakened: str, expected: set[str], dlq: DlqGround
) -> None:
    consumer = await dlq.consume()
    await dlq.serve(weakened=weakened)
    await dlq.die(2, keys=2)
    await dlq.consumers.heal()
    consumer.signal(signal.SIGTERM)
    assert await consumer.ended() == 0
    job_id = await dlq.replay()
    await eventually(lambda: all_sent(dlq, 1), what="everything was sent")
    await dlq.ask("ada", f"/jobs/{job_id}/cancel", {"reason": "not these"})
    await dlq.consume()
    assert await dlq.ended(job_id) == "CANCELLED"
    await dlq.consumers.have_had_effects(list(dlq.consumers.numbers))
    assert await dlq.violations() == expected


@pytest.mark.parametrize(("weakened", "expected"), [("second_look", {"DISCARDED": 3}), ("", {"OPEN": 3})])
async def test_a_set_that_changed_behind_its_approval_is_discarded_only_without_the_second_look(
    weakened: str, expected: dict[str, int], dlq: DlqGround
) -> None:
    """The approving service is killed when it has approved; one of the letters dies again before the next one runs."""
    await dlq.consume()
    first = await dlq.serve()
    await dlq.die(3, keys=3)
    wanted = await dlq.ask("ada", "/discard", {"filter": {"status": "OPEN"}, "reason": "they are of no use"})
    await dlq.end(first)
    doomed = await dlq.serve(failpoints="dlq.job.created=kill", tick="PT60S")
    approve = {"set_hash": wanted["set_hash"], "reason": "I have looked at them"}
    await dlq.ask_and_be_cut_off("grace", f"/approvals/{wanted['id']}/approve", approve, key="one")
    assert await doomed.ended() == -signal.SIGKILL, doomed.log.read_text()
    died_again = "UPDATE surefoot.dlq_events SET deaths = deaths + 1, letter_id = 'another' WHERE key = 'key-1'"
    await dlq.connection.execute(died_again)
    await dlq.serve(weakened=weakened)
    await dlq.ended(await the_job(dlq))
    assert await dlq.statuses() == expected


async def the_job(dlq: DlqGround) -> str:
    (row,) = await dlq.connection.fetch("SELECT id::text FROM surefoot.dlq_jobs")
    return str(row[0])


async def all_sent(dlq: DlqGround, times: int) -> bool:
    sent = "SELECT coalesce(min(sends), 0) FROM surefoot.dlq_job_items"
    return bool(await dlq.connection.fetchval(sent) >= times)

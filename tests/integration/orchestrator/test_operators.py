"""What operators decide, on real tables: carried out once, kept with who and why; or refused, and nothing changed."""

import asyncio

import asyncpg
import pytest

from orchestrator.sagas import order_placement, return_processing
from surefoot.errors import ConfigurationError
from surefoot.orchestrator import operators
from surefoot.orchestrator.operators import Outcome, UnknownSaga, operate
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.store import Store
from surefoot.saga import NotNow
from surefoot.saga.stimulus import Operated, Verb
from tests.support.saga.stored_sagas import Ground, captured, ground_at

NOBODY = "00000000-0000-0000-0000-000000000000"


async def do(ground: Ground, saga_id: str, verb: Verb, why: str = "it is mended", step: str | None = None) -> Outcome:
    return await operate(ground.connection, ground.store, saga_id, Operated(verb, "Ada", why, step))


async def everything(ground: Ground) -> list[object]:
    """All that a decision could have changed."""
    return [
        [tuple(row) for row in await ground.connection.fetch(f"SELECT * FROM surefoot.{table} ORDER BY 1, 2")]
        for table in ("saga_instances", "saga_history", "saga_timers", "outbox_events")
    ]


async def test_a_retry_sends_the_command_again_and_is_in_the_history(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    assert await ground.status(saga_id) == ("STUCK", "confirm_order", "do")
    assert await ground.timer(saga_id) is None

    outcome = await do(ground, saga_id, "retry")

    assert outcome == Outcome(
        saga_id, "retry", "confirm_order", "do", "STUCK", "RUNNING", ("confirm_order", "do"), ("order.confirm",)
    )
    assert await ground.status(saga_id) == ("RUNNING", "confirm_order", "do")
    assert (await ground.history(saga_id))[-2:] == [
        ("RETRIED", "confirm_order", "Ada: it is mended"),
        ("SENT", "confirm_order", None),
    ]
    assert await ground.timer(saga_id) == ("confirm_order", "do", 2, "timeout")
    sent = await ground.connection.fetchrow(
        "SELECT event_id::text, key, status::text FROM surefoot.outbox_events ORDER BY position DESC LIMIT 1"
    )
    assert tuple(sent) == (await ground.last_command(saga_id), saga_id, "PENDING")


async def test_the_same_retry_is_done_once_and_one_in_other_words_again(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    await do(ground, saga_id, "retry")
    before = await everything(ground)
    with pytest.raises(NotNow, match=r"That was decided already, at .*Z, by the same person for the same reason"):
        await do(ground, saga_id, "retry")
    assert await everything(ground) == before
    await do(ground, saga_id, "retry", "the service was restarted")
    assert (await ground.published()).count("order.confirm") == 3


async def test_the_same_retry_is_a_new_one_when_the_saga_got_stuck_again(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    await do(ground, saga_id, "retry")
    await ground.fail(saga_id, "Still closed.")
    assert (await ground.status(saga_id))[0] == "STUCK"
    assert (await do(ground, saga_id, "retry")).after == "RUNNING"


async def test_two_operators_at_once_retry_once(ground: Ground, database_url: str) -> None:
    saga_id = await ground.stuck_order("order-1")
    async with ground_at(database_url) as other:
        done = await asyncio.gather(do(ground, saga_id, "retry"), do(other, saga_id, "retry"), return_exceptions=True)
    assert sorted(type(one).__name__ for one in done) == ["NotNow", "Outcome"]
    assert (await ground.published()).count("order.confirm") == 2


async def test_a_wait_that_was_late_waits_once_more(ground: Ground) -> None:
    saga_id = await ground.stuck_return("return-1")
    assert await ground.status(saga_id) == ("STUCK", "pickup", "do")
    outcome = await do(ground, saga_id, "retry", step="pickup")
    assert (outcome.after, outcome.sent) == ("RUNNING", ())
    assert await ground.timer(saga_id) == ("pickup", "do", 1, "deadline")


async def test_a_pause_stops_the_clock_and_holds_what_comes_until_it_is_resumed(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    await do(ground, saga_id, "pause", "the bank is away")
    assert await ground.timer(saga_id) is None
    await ground.reply(saga_id, captured("order-1"))
    assert await ground.status(saga_id) == ("PAUSED", "capture_payment", "do")
    outcome = await do(ground, saga_id, "resume", "the bank is back")
    assert (outcome.before, outcome.after, outcome.awaits) == ("PAUSED", "RUNNING", ("confirm_order", "do"))
    assert outcome.sent == ("order.confirm",)
    assert await ground.timer(saga_id) == ("confirm_order", "do", 1, "timeout")


async def test_pausing_or_resuming_twice_says_so_and_changes_nothing(ground: Ground) -> None:
    saga_id = await ground.begin_order("order-1")
    await do(ground, saga_id, "pause", "a look first")
    before = await everything(ground)
    with pytest.raises(NotNow, match=r"paused already, since .*Z \(Ada: a look first\)\. Nothing was changed\."):
        await do(ground, saga_id, "pause", "another reason")
    assert await everything(ground) == before
    await do(ground, saga_id, "resume")
    before = await everything(ground)
    with pytest.raises(NotNow, match="The saga is RUNNING, not paused"):
        await do(ground, saga_id, "resume")
    assert await everything(ground) == before


async def test_compensating_undoes_from_the_step_awaited_on(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    outcome = await do(ground, saga_id, "compensate", "the buyer called")
    assert (outcome.after, outcome.awaits) == ("COMPENSATING", ("capture_payment", "undo"))
    assert outcome.sent == ("payment.reverse",)
    reason = await ground.connection.fetchval("SELECT reason FROM surefoot.saga_instances WHERE saga_id = $1", saga_id)
    assert reason == "An operator decided it. Ada: the buyer called"
    with pytest.raises(NotNow, match="being undone already"):
        await do(ground, saga_id, "compensate", "the buyer called")
    assert (await ground.published()).count("payment.reverse") == 1


async def test_past_the_pivot_nothing_is_undone(ground: Ground) -> None:
    saga_id = await ground.stuck_order("order-1")
    before = await everything(ground)
    with pytest.raises(NotNow, match="past its point of no return"):
        await do(ground, saga_id, "compensate")
    assert await everything(ground) == before


async def test_an_ended_saga_is_left_alone(ground: Ground) -> None:
    saga_id = await ground.undone_order("order-1")
    before = await everything(ground)
    for verb in ("pause", "resume", "retry", "compensate"):
        with pytest.raises(NotNow, match="The saga is COMPENSATED: nothing can be done to it any more"):
            await do(ground, saga_id, verb)
    assert await everything(ground) == before


async def test_a_saga_that_has_gone_on_since_the_look_is_not_touched(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    before = await everything(ground)
    with pytest.raises(NotNow, match="waits for capture_payment, not for reserve_stock: it has gone on"):
        await do(ground, saga_id, "retry", step="reserve_stock")
    pausing = Operated("pause", "Ada", "a look")
    with pytest.raises(NotNow, match="The saga is at version 3, not 2: something has happened since you looked"):
        await operate(ground.connection, ground.store, saga_id, pausing, version=2)
    assert await everything(ground) == before
    assert (await operate(ground.connection, ground.store, saga_id, pausing, version=3)).after == "PAUSED"


async def test_an_unknown_saga_is_said_so(ground: Ground) -> None:
    with pytest.raises(UnknownSaga, match=f"There is no saga {NOBODY}"):
        await do(ground, NOBODY, "retry")


async def test_a_definition_that_is_not_named_is_asked_for(ground: Ground) -> None:
    saga_id = await ground.begin_order("order-1")
    ground.store = Store(Registry([return_processing]), "surefoot")
    with pytest.raises(ConfigurationError, match=r"is of order_placement version 1, .*--sagas package\.module:saga"):
        await do(ground, saga_id, "pause")


async def test_an_ended_saga_whose_definition_is_not_here_any_more_is_left_alone(ground: Ground) -> None:
    saga_id = await ground.undone_order("order-1")
    ground.store = Store(Registry([return_processing]), "surefoot")
    before = await everything(ground)
    with pytest.raises(NotNow, match=f"The saga {saga_id} has ended: nothing can be done to it any more"):
        await do(ground, saga_id, "pause")
    assert await everything(ground) == before


async def test_a_definition_unlike_that_of_the_orchestrators_is_refused(ground: Ground) -> None:
    saga_id = await ground.begin_order("order-1")
    known = "INSERT INTO surefoot.saga_definitions (saga_type, version, fingerprint) VALUES ('order_placement', 1, $1)"
    await ground.connection.execute(known, "another")
    with pytest.raises(ConfigurationError, match="is not the one that the orchestrators of this database use"):
        await do(ground, saga_id, "pause")
    assert (await ground.status(saga_id))[0] == "RUNNING"
    await ground.connection.execute(
        "UPDATE surefoot.saga_definitions SET fingerprint = $1", order_placement.definition.fingerprint
    )
    assert (await do(ground, saga_id, "pause")).after == "PAUSED"


async def test_a_saga_that_somebody_has_in_hand_is_not_waited_for_without_end(
    ground: Ground, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "LOCK_WAIT_S", 1)
    saga_id = await ground.begin_order("order-1")
    other = await asyncpg.connect(database_url)
    async with other.transaction():
        await other.execute("SELECT FROM surefoot.saga_instances FOR UPDATE")
        with pytest.raises(NotNow, match=f"Somebody has had the saga {saga_id} in hand for 1 s"):
            await do(ground, saga_id, "pause")
    await other.close()
    assert (await do(ground, saga_id, "pause")).after == "PAUSED"

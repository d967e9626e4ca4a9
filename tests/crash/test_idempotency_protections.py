"""Each protection of an idempotent request, taken out: the named checker reports the named violation. With it in place,
the same story ends well.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.idempotency.asking import ask
from tests.support.idempotency.crash_harness import PATIENT, Ground, ServerProcess, laid
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    async with laid(database_url, tmp_path) as ground:
        yield ground


# -- the claim -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weakened", "expected"),
    [
        ("lock_and_unique_claim", {"charged_twice"}),
        ("lock", set()),
        ("unique_claim", set()),
        ("", set()),
    ],
)
async def test_two_requests_at_once_are_both_executed_only_without_the_lock_and_the_unique_claim(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    """They come to two processes, which know nothing of each other. The handlers wait before the claims are kept, until
    both requests have looked for a claim; then a claim that was kept waits for the other."""
    asked = ask("/charges", gate="handler", at_once=True)
    how = {"weakened": weakened, "failpoints": "idempotency.claimed=stop", **PATIENT}
    servers = await asyncio.gather(ground.start(**how), ground.start(**how))  # type: ignore[arg-type]
    async with ground.closed("handler"):
        sending = [asyncio.create_task(ground.send(server, asked)) for server in servers]
        await eventually(lambda: all_wait_or_are_answered(ground, sending), what="both requests have looked")
    await asyncio.gather(*map(stopped_or_answered, servers, sending))
    for server in servers:
        server.handle.signal(signal.SIGCONT)
    await asyncio.gather(*sending)
    await ground.settled(servers[0], asked)
    assert await ground.violations("/charges") == expected


async def all_wait_or_are_answered(ground: Ground, sending: Sequence[asyncio.Task[Any]]) -> bool:
    return await ground.waiting_at("handler") + sum(one.done() for one in sending) == len(sending)


async def stopped_or_answered(server: ServerProcess, sending: asyncio.Task[Any]) -> None:
    stopped = asyncio.create_task(server.handle.stopped())
    await asyncio.wait([stopped, sending], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


@pytest.mark.parametrize(("weakened", "expected"), [("fingerprint", {"mismatch_executed", "lost"}), ("", set())])
async def test_another_request_gets_the_answer_only_if_requests_are_not_compared(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    """It is told that it is done, and nothing was done for it."""
    asked = ask("/charges")
    server = await ground.start(weakened=weakened)
    await ground.settled(server, asked)
    await ground.settled(server, ask("/charges").but(key=asked.key))
    assert await ground.violations("/charges") == expected


# -- what is kept with the claim -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weakened", "expected"), [("provider_key", {"charged_twice"}), ("", set())])
async def test_a_resumed_request_charges_again_only_if_the_providers_key_is_made_anew(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    await die_and_be_completed(ground, "idempotency.called=kill", weakened)
    assert await ground.violations("/charges") == expected


@pytest.mark.parametrize(("weakened", "expected"), [("minted_values", {"charged_twice"}), ("", set())])
async def test_a_provider_that_knows_requests_by_our_id_charges_again_only_if_the_id_was_not_kept(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    await die_and_be_completed(ground, "idempotency.called=kill", weakened, provider="reference")
    assert await ground.violations("/charges") == expected


@pytest.mark.parametrize(("weakened", "expected"), [("finished_phases", {"charged_twice"}), ("", set())])
async def test_a_resumed_request_writes_its_entry_again_only_if_finished_phases_are_not_looked_up(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    await die_and_be_completed(ground, "idempotency.phase_committed=kill@2", weakened)
    assert await ground.violations("/charges") == expected


# -- while it is held ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weakened", "expected"), [("fence", {"different_bytes"}), ("", set())])
async def test_a_woken_process_changes_an_answer_only_without_the_fence(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    """It freezes when all its work is done; the completer stores an answer, and a client gets it. Then it wakes."""
    asked = ask("/charges")
    how = {"weakened": weakened, "failpoints": "idempotency.phase_committed=stop@2", **PATIENT}
    frozen, other = await ground.start_two(how, PATIENT)
    sending = asyncio.create_task(ground.send(frozen, asked))
    await frozen.handle.stopped()
    await ground.lease_runs_out()
    await ground.settled(other, asked)
    frozen.handle.signal(signal.SIGCONT)
    await sending
    await ground.settled(other, asked)
    assert await ground.violations("/charges") == expected


@pytest.mark.parametrize(("weakened", "expected"), [("renewal", {"charged_twice"}), ("", set())])
async def test_work_that_takes_longer_than_a_lease_is_done_by_two_only_if_the_lease_is_not_renewed(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    """The provider takes its time, and would charge for every call."""
    asked = ask("/charges", gate="provider")
    how = {**PATIENT, "provider": "always", "lease": "PT3S"}
    slow, _ = await ground.start_two({"weakened": weakened, **how}, how)
    async with ground.closed("provider"):
        sending = asyncio.create_task(ground.send(slow, asked))
        await ground.called(asked)
        await (ground.called(asked, times=2) if weakened else ground.outlives_a_lease())
    await sending
    await ground.at_rest()
    await ground.settled(slow, asked)
    assert await ground.violations("/charges") == expected


# -- how it ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weakened", "expected"), [("answer_before_sending", {"different_bytes"}), ("", set())])
async def test_a_retry_gets_another_answer_only_if_the_first_was_sent_before_it_was_stored(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    asked = ask("/charges")
    how = {"weakened": weakened, "failpoints": "idempotency.sent=kill", **PATIENT}
    dying, other = await ground.start_two(how, PATIENT)
    first = await ground.send(dying, asked)
    assert first is not None
    assert first.status == 201
    assert await dying.handle.ended() == -signal.SIGKILL
    await ground.lease_runs_out()
    await ground.at_rest()
    await ground.settled(other, asked)
    assert await ground.violations("/charges") == expected


@pytest.mark.parametrize(("weakened", "expected"), [("one_transaction", {"charged_twice"}), ("", set())])
async def test_a_local_route_writes_its_entry_again_only_if_work_and_answer_are_two_transactions(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    asked = ask("/entries")
    dying, other = await ground.start_two({"weakened": weakened, "failpoints": "idempotency.stored=kill"}, {})
    await ground.send(dying, asked)
    assert await dying.handle.ended() == -signal.SIGKILL
    await ground.settled(other, asked)
    assert await ground.violations("/entries") == expected


@pytest.mark.parametrize(("weakened", "expected"), [("completer", {"stuck", "lost"}), ("", set())])
async def test_a_charge_that_no_client_asks_for_again_is_lost_only_without_the_completer(
    weakened: str, expected: set[str], ground: Ground
) -> None:
    asked = ask("/charges")
    how = {"failpoints": "idempotency.called=kill", **PATIENT}
    dying, _ = await ground.start_two(how, {"weakened": weakened, **PATIENT})
    await ground.send(dying, asked)
    assert await dying.handle.ended() == -signal.SIGKILL
    await ground.lease_runs_out()
    await (ground.stays_abandoned() if weakened else ground.at_rest())
    assert await ground.violations("/charges") == expected


async def die_and_be_completed(ground: Ground, failpoints: str, weakened: str, provider: str = "key") -> None:
    """A process dies on the way, the completer of another goes on with what it left, and a client asks again."""
    asked = ask("/charges")
    how = {"weakened": weakened, "provider": provider, **PATIENT}
    dying, other = await ground.start_two({**how, "failpoints": failpoints}, how)
    await ground.send(dying, asked)
    assert await dying.handle.ended() == -signal.SIGKILL
    await ground.lease_runs_out()
    await ground.at_rest()
    await ground.settled(other, asked)

"""A process is killed or frozen at every step of a request, with a completer in another process: one charge at the
provider, one entry in our books, and the same bytes for every retry.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from surefoot.database.embedded import EmbeddedPostgres
from tests.blackbox.idempotency.asking import Ask, ask
from tests.blackbox.idempotency.serving import served
from tests.conftest import _database
from tests.support.idempotency.crash_harness import PATIENT, QUICK, Ground, ServerProcess, laid
from tests.support.relay.processes import as_environment

pytestmark = [pytest.mark.slow, pytest.mark.promise("P8")]

POINTS = {
    "claimed": "claimed={}",
    "phase committed": "phase_committed={}",
    "provider about to be called": "before_call={}",
    "answered, not stored": "called={}",
    "last phase committed": "phase_committed={}@2",
}
"""Where something is open in the database."""
EVERY = {"before the claim": "before_claim={}", **POINTS, "stored, not sent": "stored={}", "sent": "sent={}"}
RETRIES = 5


def armed(point: str, action: str) -> dict[str, str]:
    return {"failpoints": "idempotency." + point.format(action)}


def cases(points: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("point", points.values(), ids=points.keys())


@pytest.fixture(scope="module")
def other(
    postgres_server: EmbeddedPostgres, _template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, ServerProcess]]:
    """A database, and a server with a completer on it. The tests share them: they end other servers only."""
    log = tmp_path_factory.mktemp("other") / "server.log"
    with _database(postgres_server, template=_template) as url:
        command = [sys.executable, "-m", "tests.support.idempotency.crash_app", "--database", url, "--completer"]
        with served(command, log, as_environment("SUREFOOT_IDEMPOTENCY", QUICK)) as base_url:
            yield url, ServerProcess(base_url)


@pytest.fixture
async def ground(other: tuple[str, ServerProcess], tmp_path: Path) -> AsyncIterator[Ground]:
    url, server = other
    async with laid(url, tmp_path, server) as ground:
        yield ground


# -- killed ----------------------------------------------------------------------------------------------------------


@cases(EVERY)
async def test_a_process_is_killed_and_clients_try_again_at_once(point: str, ground: Ground) -> None:
    asked = ask("/charges", at_once=point.startswith("claimed"))
    dying, other = await ground.start_beside(armed(point, "kill"))
    await ground.send(dying, asked)
    assert await dying.handle.ended() == -signal.SIGKILL
    await all_is_well(ground, other, asked)


@cases(POINTS)
async def test_a_process_is_killed_and_no_client_tries_again_until_the_completer_is_done(
    point: str, ground: Ground
) -> None:
    asked = ask("/charges", at_once=point.startswith("claimed"))
    dying, other = await ground.start_beside(armed(point, "kill"))
    await ground.send(dying, asked)
    assert await dying.handle.ended() == -signal.SIGKILL
    await ground.at_rest()
    assert await ground.counts(asked) == {"provider": 1, "ledger": 1}
    late = await ground.settled(other, asked)
    assert (late.status, late.replayed) == (201, "true")
    await all_is_well(ground, other, asked)


async def test_a_process_is_killed_while_the_provider_does_not_answer(ground: Ground) -> None:
    asked = ask("/charges", gate="provider")
    dying, other = await ground.start_beside(PATIENT)
    async with ground.closed("provider"):
        sending = asyncio.create_task(ground.send(dying, asked))
        await ground.called(asked)
        dying.handle.signal(signal.SIGKILL)
        assert await sending is None
    await ground.lease_runs_out()
    await all_is_well(ground, other, asked)


async def test_a_process_is_killed_when_the_answer_of_a_local_route_is_stored(ground: Ground) -> None:
    asked = ask("/entries")
    dying, other = await ground.start_beside(armed("stored={}", "kill"))
    await ground.send(dying, asked)
    assert await dying.handle.ended() == -signal.SIGKILL
    await all_is_well(ground, other, asked)


async def test_a_process_is_killed_within_the_work_of_a_local_route(ground: Ground) -> None:
    asked = ask("/entries", gate="handler")
    dying, other = await ground.start_beside({})
    async with ground.closed("handler"):
        sending = asyncio.create_task(ground.send(dying, asked))
        await ground.called(asked)
        dying.handle.signal(signal.SIGKILL)
        assert await sending is None
    await all_is_well(ground, other, asked)


async def test_the_completer_is_killed_too_and_another_one_goes_on(database_url: str, tmp_path: Path) -> None:
    asked = ask("/charges")
    async with laid(database_url, tmp_path) as ground:
        dying, completer = await ground.start_two(armed("claimed={}", "kill"), armed("called={}", "kill"))
        await ground.send(dying, asked)
        assert await dying.handle.ended() == -signal.SIGKILL
        assert await completer.handle.ended() == -signal.SIGKILL
        await all_is_well(ground, await ground.start(completer=True), asked)


# -- frozen ----------------------------------------------------------------------------------------------------------


@cases(EVERY)
async def test_a_process_is_frozen_past_its_lease_and_woken(point: str, ground: Ground) -> None:
    asked = ask("/charges", at_once=point.startswith("claimed"))
    frozen, other = await ground.start_beside(armed(point, "stop"))
    sending = asyncio.create_task(ground.send(frozen, asked))
    await frozen.handle.stopped()
    await all_is_well(ground, other, asked)
    frozen.handle.signal(signal.SIGCONT)
    await sending
    await all_is_well(ground, frozen, asked)


async def test_a_process_is_frozen_while_the_provider_does_not_answer(ground: Ground) -> None:
    asked = ask("/charges", gate="provider")
    frozen, other = await ground.start_beside(PATIENT)
    async with ground.closed("provider"):
        sending = asyncio.create_task(ground.send(frozen, asked))
        await ground.called(asked)
        frozen.handle.signal(signal.SIGSTOP)
        await frozen.handle.stopped()
    await ground.lease_runs_out()
    await all_is_well(ground, other, asked)
    frozen.handle.signal(signal.SIGCONT)
    await sending
    await all_is_well(ground, frozen, asked)


async def test_a_process_is_frozen_when_the_answer_of_a_local_route_is_stored(ground: Ground) -> None:
    asked = ask("/entries")
    frozen, other = await ground.start_beside(armed("stored={}", "stop"))
    sending = asyncio.create_task(ground.send(frozen, asked))
    await frozen.handle.stopped()
    await all_is_well(ground, other, asked)
    frozen.handle.signal(signal.SIGCONT)
    await sending
    await all_is_well(ground, frozen, asked)


async def test_a_process_is_frozen_within_its_transaction_and_others_get_the_key_when_the_server_ends_it(
    ground: Ground,
) -> None:
    asked = ask("/entries", gate="handler")
    frozen, other = await ground.start_beside({})
    async with ground.closed("handler"):
        sending = asyncio.create_task(ground.send(frozen, asked))
        await ground.called(asked)
        frozen.handle.signal(signal.SIGSTOP)
        await frozen.handle.stopped()
    await all_is_well(ground, other, asked)
    frozen.handle.signal(signal.SIGCONT)
    await sending
    await all_is_well(ground, frozen, asked)


# -- what must be true -----------------------------------------------------------------------------------------------


async def all_is_well(ground: Ground, server: ServerProcess, asked: Ask) -> None:
    """Clients try again, another request comes under the same key, and everything comes to an end."""
    other = ask(asked.path).but(key=asked.key)
    retries: Sequence[object] = await asyncio.gather(*(ground.settled(server, asked) for _ in range(RETRIES)))
    assert {getattr(reply, "status", None) for reply in retries} == {201}, ground.logs()
    mismatch = await ground.settled(server, other)
    assert mismatch.status == 422
    await ground.at_rest()
    assert await ground.findings(asked.path) == []
    assert set((await ground.counts(asked)).values()) == {1}

"""How much may be asked for, how much of what was refused is written down, and when the service does not start."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest

from schemas import catalogue
from surefoot.admin import PREFIX, api
from surefoot.admin.auth import UNRECORDED
from surefoot.audit.access import Access, check_access
from surefoot.audit.settings import AccessSettings
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import ConfigurationError
from surefoot.http.server import HttpService
from tests.support.dlq.http_harness import GENEROUS, Ground, assert_problem, ground_at
from tests.support.waiting import eventually


async def test_one_person_may_ask_for_so_much_and_is_told_when_to_come_again(database_url: str) -> None:
    async with ground_at(database_url, requests_per_second=0.001, requests_at_once=3) as ground:
        answers = [await ground.get("vera", "/jobs") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert_problem(answers[3], 429, "vera asks more often than one person may")
        assert 900 < int(answers[3].headers["retry-after"]) <= 1000
        assert (await ground.get("otto", "/jobs")).status_code == 200
        assert await ground.refused() == [("vera", "request", "GET /admin/dlq/jobs")]


async def test_a_flood_of_strangers_is_recorded_a_few_times_and_counted(database_url: str) -> None:
    async with ground_at(database_url, refusals_recorded_per_minute=3) as ground:
        before = _unrecorded()
        for _ in range(10):
            assert (await ground.get(None, "/jobs")).status_code == 401
        assert await ground.refused() == [("anonymous", "access", "GET /admin/dlq/jobs")] * 3
        assert _unrecorded() - before == 7


async def test_what_is_open_to_strangers_is_no_way_to_fill_the_log(database_url: str) -> None:
    async with ground_at(database_url, refusals_recorded_per_minute=3) as ground:
        for _ in range(10):
            assert (await ground.ask(None, "DELETE", "/healthz")).status_code == 405
        assert await ground.refused() == [("anonymous", "request", "DELETE /admin/dlq/healthz")] * 3


async def test_a_flood_of_one_person_is_recorded_a_few_times_and_counted(database_url: str) -> None:
    limits: dict[str, Any] = {"requests_per_second": 0.001, "requests_at_once": 1, "refusals_recorded_per_minute": 3}
    async with ground_at(database_url, **limits) as ground:
        for _ in range(10):
            await ground.post("otto", "/replay", {})
        assert [each[1] for each in await ground.refused()] == ["replay", "request", "request", "request"]


async def test_a_refusal_that_cannot_be_recorded_stays_one(database_url: str) -> None:
    async with ground_at(database_url) as ground:
        await ground.connection.execute("ALTER TABLE surefoot.audit_log RENAME TO elsewhere")
        before = _unrecorded()
        assert_problem(await ground.get("vera", "/audit"), 403, "needs ADMIN")
        assert _unrecorded() - before == 1


def _unrecorded() -> float:
    found: float = UNRECORDED._value.get()
    return found


async def test_without_any_token_it_does_not_start(database_url: str) -> None:
    with pytest.raises(ConfigurationError, match="Nobody could use the service"):
        await check_access(database_url, "surefoot", AccessSettings(), host="127.0.0.1", open_=False)


async def test_open_it_starts_on_this_machine_alone(database_url: str) -> None:
    access = await check_access(database_url, "surefoot", AccessSettings(), host="127.0.0.1", open_=True)
    assert access.is_open
    for host in ("0.0.0.0", "", "::"):  # noqa: S104
        with pytest.raises(ConfigurationError, match="--open goes with a loopback address only"):
            await check_access(database_url, "surefoot", AccessSettings(), host=host, open_=True)


async def test_with_a_token_it_starts_anywhere_and_closed(database_url: str) -> None:
    async with ground_at(database_url, people=["vera"]) as ground:
        access = await check_access(database_url, "surefoot", AccessSettings(), host="0.0.0.0", open_=False)  # noqa: S104
        assert not access.is_open
        await ground.connection.execute("UPDATE surefoot.admin_tokens SET revoked_at = now()")
        with pytest.raises(ConfigurationError, match="there is no local token"):
            await check_access(database_url, "surefoot", AccessSettings(), host="127.0.0.1", open_=False)


async def test_with_an_issuer_it_starts_without_local_tokens(database_url: str) -> None:
    settings = AccessSettings(jwt_secret="s" * 32, jwt_audience="a", jwt_issuer="i")
    access = await check_access(database_url, "surefoot", settings, host="127.0.0.1", open_=False)
    assert not access.is_open


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@asynccontextmanager
async def served(ground: Ground) -> AsyncIterator[str]:
    """By a real server, at a port."""
    app = api(ground.url, "surefoot", DlqSettings(), Access(AccessSettings(**GENEROUS)), catalogue)
    with listening() as listener:
        service = HttpService(app, listener)
        task = asyncio.create_task(service.run())

        async def started() -> bool:
            return service.has_started

        await eventually(started, what="the server has started")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            service.stop()
            await task


@pytest.mark.slow
async def test_through_a_real_server_large_bodies_end_early_and_it_goes_on(database_url: str) -> None:
    async with ground_at(database_url) as ground, served(ground) as at, httpx.AsyncClient(base_url=at) as client:
        headers = {"Authorization": f"Bearer {ground.tokens['otto']}", "Content-Type": "application/json"}
        for content in (b" " * (50 * 1024 * 1024), endless()):
            answer = await tried(client, content, headers)
            assert answer is None or answer.status_code == 413
        answers = await client.get(f"{PREFIX}/jobs", headers=headers)
        assert answers.status_code == 200
        assert "server" not in answers.headers
        assert await ground.refused() == [("otto", "request", "POST /admin/dlq/replay")] * 2


async def endless() -> AsyncIterator[bytes]:
    for _ in range(50):
        yield b" " * 1024 * 1024


async def tried(client: httpx.AsyncClient, content: Any, headers: dict[str, str]) -> httpx.Response | None:
    """None if the server closed the connection before all of it was sent."""
    try:
        return await client.post(f"{PREFIX}/replay", content=content, headers=headers)
    except httpx.WriteError:
        return None

"""What handlers do, rightly and wrongly: phases that fail, calls that are not repeated, and misuse that says so."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI, HTTPException
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from surefoot.idempotency import Idempotency, Idempotent, PhaseMisuse, Store, Tx, idempotent
from tests.idempotency_app import app_settings
from tests.idempotency_door import Quiet
from tests.integration.idempotency.http_ground import REPLAYED, new_key, served

pytestmark = pytest.mark.slow

SETTINGS = app_settings()
TABLE = """
CREATE TABLE things (id text PRIMARY KEY);
CREATE TABLE parts (thing text REFERENCES things DEFERRABLE INITIALLY DEFERRED);
INSERT INTO things VALUES ('taken')
"""


class Base(DeclarativeBase): ...


class Thing(Base):
    __tablename__ = "things"
    id: Mapped[str] = mapped_column(primary_key=True)


@dataclass
class Bench:
    """An app with one route, which does what the test says."""

    client: httpx.AsyncClient
    store: Store
    app: FastAPI

    async def post(self, path: str, key: str) -> httpx.Response:
        return await self.client.post(path, headers={"Idempotency-Key": key})

    async def states(self) -> list[tuple[str, int]]:
        unclaimed = await self.store.unclaimed()
        try:
            query = text("SELECT state::text, attempts FROM surefoot.idempotency_keys")
            found = await unclaimed.tx.session.execute(query)
            return [(row.state, row.attempts) for row in found]
        finally:
            await unclaimed.release()


@pytest.fixture
async def bench(database_url: str) -> AsyncIterator[Bench]:
    async with Store(database_url, SETTINGS, pool_size=6) as store:
        unclaimed = await store.unclaimed()
        for statement in TABLE.split(";"):
            await unclaimed.tx.session.execute(text(statement))
        await unclaimed.commit()
        app = FastAPI()
        app.add_middleware(Idempotency, store=store, tenant=lambda request: "one", settings=SETTINGS)
        async with served(Quiet(app)) as client:
            yield Bench(client, store, app)


async def added(tx: Tx, id: str) -> None:  # noqa: A002 - the word of the domain
    tx.session.add(Thing(id=id))


async def inserted(tx: Tx, id: str) -> None:  # noqa: A002
    await tx.session.execute(text("INSERT INTO things VALUES (:id)"), {"id": id})


async def deferred(tx: Tx, id: str) -> None:  # noqa: A002
    await tx.session.execute(text("INSERT INTO parts VALUES (:id)"), {"id": id})


@pytest.mark.parametrize(("work", "at_the_end"), [(added, False), (inserted, False), (deferred, True)])
@pytest.mark.parametrize("earlier", [False, True])
async def test_a_phase_that_fails_leaves_nothing_and_the_request_can_be_tried_again(
    bench: Bench, work: Any, at_the_end: bool, earlier: bool
) -> None:
    """It fails where it runs, when what it left is written, or at the very commit; as the first phase or later."""
    names = ["taken" if not at_the_end else "nowhere", "fresh" if not at_the_end else "taken"]

    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        if earlier:
            await once.phase("earlier", nothing)
        await once.phase("work", work, names.pop(0))
        return "done"

    key = new_key()
    assert (await bench.post("/", key)).status_code == 500
    assert (await bench.post("/", key)).json() == "done"
    assert (await bench.post("/", key)).headers[REPLAYED] == "true"


async def nothing(tx: Tx) -> None: ...


@pytest.mark.parametrize("work", [added, inserted])
async def test_a_handler_may_answer_for_a_phase_that_failed(bench: Bench, work: Any) -> None:
    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        try:
            await once.phase("work", work, "taken")
        except IntegrityError:
            raise HTTPException(409, "it is there already") from None
        return "done"

    key = new_key()
    first, again = await bench.post("/", key), await bench.post("/", key)
    assert (first.status_code, again.status_code, again.content) == (409, 409, first.content)
    assert await bench.states() == [("FAILED_TERMINAL", 1)]


async def test_a_handler_may_try_another_phase_after_one_that_failed(bench: Bench) -> None:
    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        try:
            await once.phase("work", inserted, "taken")
        except IntegrityError:
            await once.phase("instead", inserted, "fresh")
        return "done"

    assert (await bench.post("/", new_key())).json() == "done"


async def test_a_call_whose_answer_was_committed_is_not_made_again(bench: Bench) -> None:
    calls: list[str] = []

    async def authorize(*, key: str) -> dict[str, str]:
        calls.append("authorize")
        return {"hold": "h_1"}

    async def capture(hold: dict[str, str], *, key: str) -> str:
        calls.append("capture")
        if calls.count("capture") == 1:
            raise ConnectionResetError
        return hold["hold"]

    async def held(tx: Tx, hold: dict[str, str]) -> None: ...

    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        hold = await once.call("authorize", authorize)
        await once.phase("held", held, hold)
        return await once.call("capture", capture, hold)

    key = new_key()
    assert (await bench.post("/", key)).status_code == 504
    assert (await bench.post("/", key)).json() == "h_1"
    assert calls == ["authorize", "capture", "capture"]


async def test_what_is_no_json_is_answered_by_calling_again(bench: Bench) -> None:
    """A call may return anything: what cannot be kept is not kept."""
    calls: list[str] = []

    async def authorize(*, key: str) -> httpx.Response:
        calls.append(key)
        return httpx.Response(200, text="h_1")

    async def held(tx: Tx, hold: str) -> None: ...

    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        hold = await once.call("authorize", authorize)
        await once.phase("held", held, hold.text)
        if once.attempt == 1:
            raise RuntimeError("not yet")
        return hold.text

    key = new_key()
    assert (await bench.post("/", key)).status_code == 500
    assert (await bench.post("/", key)).json() == "h_1"
    assert len(calls) == 2
    assert len(set(calls)) == 1


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("twice", "was used for two phases or calls"),
        ("together", "was begun while 'a' was under way"),
        ("tx", 'A route with effect="outside" has no transaction that stays open'),
        ("late_mint", "mint() was asked for id when the claim had been kept"),
        ("result", "returned a object, which cannot be kept as JSON"),
    ],
)
async def test_misuse_of_an_outside_route_says_so(bench: Bench, way: str, says: str) -> None:
    said: list[str] = []

    async def odd(tx: Tx):  # type: ignore[no-untyped-def]
        return object()

    async def misuse(once: Idempotent) -> None:
        match way:
            case "twice":
                await once.phase("a", nothing)
                await once.phase("a", nothing)
            case "together":
                await asyncio.gather(once.phase("a", nothing), once.phase("b", nothing))
            case "tx":
                _ = once.tx
            case "late_mint":
                await once.phase("a", nothing)
                once.mint(id=new_key)
            case "result":
                await once.phase("a", odd)

    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> None:
        try:
            await misuse(once)
        except PhaseMisuse as error:
            said.append(str(error))
            raise

    assert (await bench.post("/", new_key())).status_code == 500
    assert says in said[0]


async def test_misuse_of_a_local_route_says_so(bench: Bench) -> None:
    said: list[str] = []

    @bench.app.post("/")
    @idempotent()
    async def create(once: Idempotent) -> None:
        for misuse in (once.phase("a", nothing), once.call("b", nothing)):
            try:
                await misuse
            except PhaseMisuse as error:
                said.append(str(error))

    assert (await bench.post("/", new_key())).status_code == 200
    assert [sentence.partition(".")[0] for sentence in said] == [
        "The phase 'a' needs a route with effect=\"outside\"",
        "The call 'b' needs a route with effect=\"outside\"",
    ]


async def test_when_it_is_answered_nobody_is_called_any_more(bench: Bench) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()

    async def charge(*, key: str) -> str:
        return "charged"

    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(tasks: BackgroundTasks, once: Idempotent) -> str:
        async def later() -> None:
            try:
                await once.call("late", charge)
            except PhaseMisuse as error:
                await said.put(str(error))

        tasks.add_task(later)
        return "done"

    assert (await bench.post("/", new_key())).json() == "done"
    async with asyncio.timeout(10):
        assert "was begun when the request had been answered" in await said.get()


async def test_an_outside_route_that_begins_nothing_is_stored_in_one_go(bench: Bench) -> None:
    runs: list[int] = []

    @bench.app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        runs.append(1)
        if len(runs) < 3:
            raise HTTPException(503, "not now")
        return f"run {len(runs)}"

    key = new_key()
    assert [(await bench.post("/", key)).status_code for _ in range(2)] == [503, 503]
    assert await bench.states() == [("FAILED_RETRY", 1)], "nothing was begun, so nothing is counted"
    assert (await bench.post("/", key)).json() == "run 3"
    assert (await bench.post("/", key)).json() == "run 3"
    other = await bench.client.post("/?x=1", headers={"Idempotency-Key": key})
    assert other.status_code == 422

"""What handlers do, rightly and wrongly: nothing happens twice, nothing stays open, and misuse says so."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any

import asyncpg
import pytest
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from starlette.responses import JSONResponse, Response, StreamingResponse

from surefoot.idempotency import Idempotency, Idempotent, PhaseMisuse, Store, Tx, idempotent
from tests.support.idempotency.apps import SETTINGS, Bank, answers, app_around, breaks, hangs, until_it_hangs
from tests.support.idempotency.http_harness import REPLAYED, new_key, served
from tests.support.idempotency.reference_middleware import Quiet
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

INSERT = text("INSERT INTO effects SELECT coalesce(max(n), 0) + 1 FROM effects")
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
STATES = "SELECT state::text, attempts FROM surefoot.idempotency_keys"
TAKEN, FRESH = 7, 8


class Base(DeclarativeBase): ...


class Effect(Base):
    __tablename__ = "effects"
    n: Mapped[int] = mapped_column(primary_key=True)


async def effects(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM effects"))


async def nothing(tx: Tx) -> None: ...


# -- phases -----------------------------------------------------------------------------------------------------------


async def added(tx: Tx, n: int) -> None:
    tx.session.add(Effect(n=n))


async def inserted(tx: Tx, n: int) -> None:
    await tx.session.execute(text("INSERT INTO effects VALUES (:n)"), {"n": n})


async def deferred(tx: Tx, n: int) -> None:
    await tx.session.execute(text("INSERT INTO parts VALUES (:n)"), {"n": n})


@pytest.fixture
async def taken(connection: asyncpg.Connection) -> None:
    await connection.execute("CREATE TABLE parts (n int REFERENCES effects DEFERRABLE INITIALLY DEFERRED)")
    await connection.execute(f"INSERT INTO effects VALUES ({TAKEN})")


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize(
    ("work", "numbers", "is_first"),
    [
        (added, [TAKEN, FRESH], True),
        (inserted, [TAKEN, FRESH], False),
        (deferred, [FRESH, TAKEN], True),
        (deferred, [FRESH, TAKEN], False),
    ],
)
async def test_a_phase_that_fails_leaves_nothing_and_the_request_can_be_tried_again(
    store: Store, work: Callable[..., Awaitable[None]], numbers: list[int], is_first: bool
) -> None:
    """It fails where it runs, when what it left is written, or at the very commit; as the first phase or later."""
    app, unused = app_around(store), list(numbers)

    @app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        if not is_first:
            await once.phase("earlier", nothing)
        await once.phase("work", work, unused.pop(0))
        return "done"

    failed, done, again = await answers(app, 3)
    assert (failed.status_code, done.json(), again.headers[REPLAYED]) == (500, "done", "true")


@pytest.mark.usefixtures("taken")
async def test_a_handler_may_answer_for_a_phase_that_failed_or_try_another_one(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    @app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent, instead: bool = False) -> str:
        try:
            await once.phase("work", added, TAKEN)
        except IntegrityError:
            if not instead:
                raise HTTPException(409, "it is there already") from None
            await once.phase("instead", inserted, FRESH)
        return "done"

    first, again = await answers(app, 2)
    assert (first.status_code, again.status_code, again.content) == (409, 409, first.content)
    assert [tuple(row) for row in await connection.fetch(STATES)] == [("FAILED_TERMINAL", 1)]
    (done,) = await answers(app, 1, "/?instead=1")
    assert done.json() == "done"


async def test_a_phase_that_the_handler_cuts_short_leaves_nothing_for_the_next_one_to_commit(
    store: Store, connection: asyncpg.Connection
) -> None:
    app, bank = app_around(store), Bank([breaks])

    async def write(tx: Tx) -> None:
        await tx.session.execute(INSERT)
        if not bank.calls:
            await hangs()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        with suppress(TimeoutError):
            async with until_it_hangs():
                await once.phase("written", write)
        return await once.call("charge", bank.charge)

    assert [answer.status_code for answer in await answers(app, 2)] == [504, 200]
    assert await effects(connection) == 1


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_phase_that_is_still_under_way_when_the_handler_answers_is_not_half_committed(
    store: Store, connection: asyncpg.Connection, is_first: bool
) -> None:
    app = app_around(store)
    goes_on, written = asyncio.Event(), asyncio.Event()
    phases: list[asyncio.Task[None]] = []

    async def write(tx: Tx) -> None:
        await tx.session.execute(INSERT)
        written.set()
        await goes_on.wait()
        await tx.session.execute(INSERT)

    @app.post("/")
    @idempotent(effect="outside")
    async def work(once: Idempotent) -> str:
        if not is_first:
            await once.phase("begun", nothing)
        phases.append(asyncio.create_task(once.phase("written", write)))
        if once.attempt == 1 and len(phases) == 1:
            await written.wait()
        else:
            await phases[-1]
        return "done"

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code >= 500
        goes_on.set()
        await asyncio.gather(*phases, return_exceptions=True)
        assert await effects(connection) == 0

        async def is_answered() -> bool:
            return (await client.post("/", headers=key)).status_code == 200

        await eventually(is_answered, what="the next one does it")
    assert await effects(connection) == 2


async def test_an_outside_route_that_begins_nothing_is_stored_in_one_go(
    store: Store, connection: asyncpg.Connection
) -> None:
    app, runs = app_around(store), [0]
    states: list[tuple[object, ...]] = []

    @app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        runs[0] += 1
        states.extend(tuple(row) for row in await connection.fetch(STATES))
        if runs[0] < 3:
            raise HTTPException(503, "not now")
        return f"run {runs[0]}"

    found = await answers(app, 4)
    assert [answer.status_code for answer in found] == [503, 503, 200, 200]
    assert states == [("FAILED_RETRY", 1)] * 2, "nothing was begun, so nothing is counted"
    assert [answer.json() for answer in found[2:]] == ["run 3", "run 3"]


# -- misuse -----------------------------------------------------------------------------------------------------------


async def odd(tx: Tx):  # type: ignore[no-untyped-def]
    return object()


async def twice(once: Idempotent) -> None:
    await once.phase("a", nothing)
    await once.phase("a", nothing)


async def together(once: Idempotent) -> None:
    await asyncio.gather(once.phase("a", nothing), once.phase("b", nothing))


async def use_tx(once: Idempotent) -> None:
    _ = once.tx


async def mint_late(once: Idempotent) -> None:
    await once.phase("a", nothing)
    once.mint(id=new_key)


MISUSES: list[tuple[Any, Callable[[Idempotent], Awaitable[None]], str]] = [
    ("outside", twice, "'a' was used for two phases or calls"),
    ("outside", together, "'b' was begun while 'a' was under way"),
    ("outside", use_tx, 'A route with effect="outside" has no transaction that stays open'),
    ("outside", mint_late, "mint() was asked for id when the claim had been kept"),
    ("outside", lambda once: once.phase("a", odd), "returned a object, which cannot be kept as JSON"),
    ("local", lambda once: once.phase("a", nothing), "The phase 'a' needs a route with effect=\"outside\""),
    ("local", lambda once: once.call("b", nothing), "The call 'b' needs a route with effect=\"outside\""),
]


async def test_misuse_says_so(store: Store) -> None:
    app, said = app_around(store), []

    def add(number: int, effect: Any, misuse: Callable[[Idempotent], Awaitable[None]]) -> None:
        @app.post(f"/{number}")
        @idempotent(effect=effect)
        async def create(once: Idempotent) -> None:
            try:
                await misuse(once)
            except PhaseMisuse as error:
                said.append(str(error))
                raise

    for number, (effect, misuse, _) in enumerate(MISUSES):
        add(number, effect, misuse)
    async with served(Quiet(app)) as client:
        for number in range(len(MISUSES)):
            answer = await client.post(f"/{number}", headers={"Idempotency-Key": new_key()})
            assert answer.status_code == 500
    assert [sentence for (_, _, sentence), told in zip(MISUSES, said, strict=True) if sentence not in told] == []


async def test_a_resumed_request_mints_nothing_that_its_first_attempt_did_not(store: Store) -> None:
    app = app_around(store)

    @app.post("/")
    @idempotent(effect="outside")
    async def create(once: Idempotent) -> str:
        once.mint(id=new_key)
        if once.attempt == 2:
            once.mint(more=new_key)
        await once.phase("a", nothing)
        if once.attempt == 1:
            raise HTTPException(503, "not now")
        return "done"

    assert [answer.status_code for answer in await answers(app, 3)] == [503, 500, 200]


async def test_an_idempotent_handler_that_calls_another_is_told_not_to_and_leaves_nothing_open(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    @app.post("/inner")
    @idempotent()
    async def inner(once: Idempotent) -> str:
        return "inner"

    @app.post("/")
    @idempotent()
    async def outer(once: Idempotent) -> Any:
        await once.tx.session.execute(INSERT)
        return await inner()

    async def nothing_is_open() -> bool:
        return bool(await connection.fetchval(OPEN) == 0)

    (answer,) = await answers(app, 1)
    assert answer.status_code == 500
    await eventually(nothing_is_open, what="its transaction ends")
    assert await effects(connection) == 0


async def test_tasks_that_use_the_session_of_a_request_that_is_over_do_not_harm_the_next(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)
    tasks: list[asyncio.Task[Any]] = []

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent, stray: int) -> str:
        session = once.tx.session
        await session.execute(INSERT)

        async def later(after_s: float) -> None:
            await asyncio.sleep(after_s)
            await session.execute(INSERT)

        tasks.extend(asyncio.create_task(later(n / 2000)) for n in range(stray))
        return "done"

    async with served(app) as client:
        for _ in range(20):
            await client.post("/?stray=10", headers={"Idempotency-Key": new_key()})
        await asyncio.gather(*tasks, return_exceptions=True)
        before = await effects(connection)
        for _ in range(20):
            assert (await client.post("/?stray=0", headers={"Idempotency-Key": new_key()})).status_code == 200
    assert await effects(connection) == before + 20


async def test_a_statement_that_the_handler_cuts_short_takes_its_transaction_along(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> str:
        await once.tx.session.execute(INSERT)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await once.tx.session.execute(text("SELECT pg_sleep(5)"))
        return "done"

    assert [answer.status_code for answer in await answers(app, 2)] == [503, 503]
    assert await effects(connection) == 0


# -- odd answers and odd requests -------------------------------------------------------------------------------------


async def test_a_body_where_none_may_be_is_not_sent(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    app = app_around(store)

    @app.post("/{status}")
    @idempotent()
    async def too_much(once: Idempotent, status: int) -> Response:
        return JSONResponse({"said": "too much"}, status)

    for status in (204, 304):
        found = await answers(app, 2, f"/{status}")
        assert [(answer.status_code, answer.content) for answer in found] == [(status, b"")] * 2
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []  # the server takes it amiss


async def test_a_stream_that_is_not_announced_is_kept_whole(store: Store, connection: asyncpg.Connection) -> None:
    app = app_around(store)

    @app.post("/", response_model=None)
    @idempotent()
    async def work(once: Idempotent, breaks: bool = False) -> Any:
        await once.tx.session.execute(INSERT)

        async def parts() -> AsyncIterator[bytes]:
            for n in range(5):
                await asyncio.sleep(0)
                yield b"part %d\n" % n
                if breaks:
                    raise RuntimeError("in the middle of it")

        return StreamingResponse(parts(), 201)

    first, second = await answers(app, 2)
    assert (first.status_code, first.content.count(b"part")) == (201, 5)
    assert (second.status_code, second.content, second.headers[REPLAYED]) == (201, first.content, "true")
    (broken,) = await answers(app, 1, "/?breaks=1")
    assert broken.status_code == 500
    assert await effects(connection) == 1


async def test_a_dependency_that_fails_behind_the_handler_changes_no_answer(
    store: Store, connection: asyncpg.Connection
) -> None:
    app = app_around(store)

    def failing() -> Iterator[str]:
        yield "something"
        raise RuntimeError("too late")

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent, given: Annotated[str, Depends(failing)]) -> str:
        await once.tx.session.execute(INSERT)
        return given

    first, second = await answers(app, 2)
    assert (first.status_code, second.status_code, second.headers[REPLAYED]) == (200, 200, "true")
    assert first.content == second.content
    assert await effects(connection) == 1


TENANTS = {
    "ß☕": 200,
    "'; DROP TABLE effects; --": 200,
    "x" * 255: 200,
    "x" * 256: 500,
    "one\x00two": 500,
    "\ud800": 500,
    "": 500,
}


async def test_a_tenant_of_odd_characters_is_one_tenant_or_none(store: Store, connection: asyncpg.Connection) -> None:
    app, asking = FastAPI(), [""]
    app.add_middleware(Idempotency, store=store, tenant=lambda _: asking[0], settings=SETTINGS)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent) -> int:
        await once.tx.session.execute(INSERT)
        return 1

    async with served(Quiet(app)) as client:
        for asking[0], status in TENANTS.items():
            key = {"Idempotency-Key": new_key()}
            found = [await client.post("/", headers=key) for _ in range(2)]
            assert [answer.status_code for answer in found] == [status, status], asking
    assert await effects(connection) == 3


async def test_a_large_body_is_not_read_where_all_others_would_wait_for_it(store: Store) -> None:
    threads: list[bool] = []

    class Watched(str):
        def encode(self, *how: Any) -> bytes:
            threads.append(threading.current_thread() is threading.main_thread())
            return super().encode(*how)

    app = FastAPI()
    app.add_middleware(Idempotency, store=store, tenant=lambda _: Watched("one"), settings=SETTINGS)

    @app.post("/")
    @idempotent()
    async def work(once: Idempotent, body: list[int]) -> int:
        return len(body)

    async with served(app) as client:
        for count, is_main in ((10, True), (100_000, False)):
            threads.clear()
            answer = await client.post("/", headers={"Idempotency-Key": new_key()}, json=[1] * count)
            assert (answer.status_code, answer.json()) == (200, count)
            assert set(threads) == {is_main}

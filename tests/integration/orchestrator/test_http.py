"""The read API on real tables: pages that are stable, one saga, its history, and errors as sentences."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.orchestrator.http import api
from tests.support.corpus import each_of
from tests.support.saga.stored_sagas import Ground

NOBODY = "00000000-0000-0000-0000-000000000000"


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = api(url)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://sagas") as client:
            yield client


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with reader(database_url) as client:
        yield client


def assert_problem(response: httpx.Response, status: int, says: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert says in problem["detail"]


async def test_pages_go_from_the_newest_to_the_oldest_and_stay_as_they_are(
    ground: Ground, client: httpx.AsyncClient
) -> None:
    ids = [await ground.begin_order(f"order-{n}") for n in range(5)]
    first = (await client.get("/sagas", params={"limit": 2})).json()
    assert [saga["saga_id"] for saga in first["sagas"]] == [ids[4], ids[3]]
    await ground.begin_order("order-new")
    second = (await client.get("/sagas", params={"limit": 2, "after": first["next"]})).json()
    assert [saga["saga_id"] for saga in second["sagas"]] == [ids[2], ids[1]]
    last = (await client.get("/sagas", params={"limit": 2, "after": second["next"]})).json()
    assert [saga["saga_id"] for saga in last["sagas"]] == [ids[0]]
    assert last["next"] is None
    whole = (await client.get("/sagas", params={"limit": 2, "after": second["sagas"][0]["saga_id"]})).json()
    assert (len(whole["sagas"]), whole["next"]) == (2, None)


async def test_each_filter_narrows(ground: Ground, client: httpx.AsyncClient) -> None:
    stuck = await ground.stuck_order("order-1")
    late = await ground.stuck_return("return-1")
    running = await ground.order_with_stock("order-2")
    undone = await ground.undone_order("order-3")

    async def found(**asked: str) -> set[str]:
        return {saga["saga_id"] for saga in (await client.get("/sagas", params=asked)).json()["sagas"]}

    assert await found() == {stuck, late, running, undone}
    assert await found(status="STUCK") == {stuck, late}
    assert await found(status="COMPENSATED") == {undone}
    assert await found(type="order_placement", status="STUCK") == {stuck}
    assert await found(step="capture_payment") == {running}
    assert await found(entity="return-1") == {late}
    assert await found(entity="nobody's\x00") == set()


async def test_a_saga_is_shown_as_it_stands(ground: Ground, client: httpx.AsyncClient) -> None:
    saga_id = await ground.order_with_stock("order-1")
    saga = (await client.get(f"/sagas/{saga_id}")).json()
    assert {name: saga[name] for name in ("saga_type", "entity_id", "status", "current_step", "version")} == {
        "saga_type": "order_placement",
        "entity_id": "order-1",
        "status": "RUNNING",
        "current_step": "capture_payment",
        "version": 3,
    }
    assert [(step["name"], step["state"], step["attempt"], step["limit"]) for step in saga["steps"]] == [
        ("create_order", "DONE", 1, 5),
        ("reserve_stock", "DONE", 1, 5),
        ("capture_payment", "AWAITED", 1, 5),
    ]
    assert saga["steps"][1]["result"]["data"]["reservation_id"] == "r-1"
    assert saga["context"]["ship_to"]["city"] == "Berlin"
    assert (saga["timer"]["kind"], saga["timer"]["command_status"]) == ("timeout", "PENDING")
    assert saga["timer"]["command_id"] == await ground.last_command(saga_id)


async def test_the_history_is_paged_in_order(ground: Ground, client: httpx.AsyncClient) -> None:
    saga_id = await ground.begin_order("order-1")
    await ground.fail(saga_id, "The order book is closed.")
    first = (await client.get(f"/sagas/{saga_id}/history", params={"limit": 3})).json()
    assert [(line["kind"], line["before"], line["after"]) for line in first["lines"]] == [
        ("STARTED", "RUNNING", "RUNNING"),
        ("SENT", "RUNNING", "RUNNING"),
        ("FAILED", "RUNNING", "RUNNING"),
    ]
    assert first["lines"][2]["sentence"] == "The order book is closed."
    rest = (await client.get(f"/sagas/{saga_id}/history", params={"after": first["next"]})).json()
    assert [line["kind"] for line in rest["lines"]] == ["COMPENSATING", "SENT"]
    assert rest["next"] is None


async def test_the_summary_counts_what_is_under_way(ground: Ground, client: httpx.AsyncClient) -> None:
    await ground.order_with_stock("order-1")
    await ground.order_with_stock("order-2")
    await ground.stuck_order("order-3")
    await ground.undone_order("order-4")
    steps = (await client.get("/sagas/summary")).json()["steps"]
    assert [(one["status"], one["current_step"], one["current_direction"], one["sagas"]) for one in steps] == [
        ("RUNNING", "capture_payment", "do", 2),
        ("STUCK", "confirm_order", "do", 1),
    ]


async def test_what_is_not_there_is_answered_with_a_sentence(client: httpx.AsyncClient) -> None:
    assert_problem(await client.get(f"/sagas/{NOBODY}"), 404, f"There is no saga {NOBODY}: look at the id.")
    assert_problem(await client.get(f"/sagas/{NOBODY}/history"), 404, f"There is no saga {NOBODY}")
    assert_problem(await client.get("/saga"), 404, "There is nothing at /saga")
    assert_problem(await client.post("/sagas"), 405, "POST is not possible here: this API only reads")


@each_of(
    ("path", "says"),
    [
        ("/sagas?limit=201", "limit cannot be used: Input should be less than or equal to 200"),
        ("/sagas?limit=0", "limit cannot be used: Input should be greater than or equal to 1"),
        ("/sagas?status=BROKEN", "status cannot be used: Input should be 'RUNNING', 'COMPENSATING'"),
        ("/sagas?after=1", "after cannot be used: Input should be a valid UUID"),
        ("/sagas?statsu=STUCK", "statsu is not a parameter of this"),
        ("/sagas/order-1", "saga_id cannot be used: Input should be a valid UUID"),
        (f"/sagas/{NOBODY}/history?after=99999999999999999999", "after cannot be used"),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_answered_with_a_sentence(
    client: httpx.AsyncClient, path: str, says: str
) -> None:
    assert_problem(await client.get(path), 422, says)


async def test_it_reads_in_transactions_that_cannot_write(
    ground: Ground, client: httpx.AsyncClient, database_url: str
) -> None:
    """A table that writes when it is read: only a transaction that may write could."""
    await ground.begin_order("order-1")
    await ground.connection.execute(
        """CREATE TABLE written (n int);
           CREATE FUNCTION write() RETURNS bigint LANGUAGE sql VOLATILE AS 'INSERT INTO public.written VALUES (1)
               RETURNING n::bigint';
           CREATE OR REPLACE VIEW surefoot.sagas_by_step AS
               SELECT saga_type, definition_version, status, current_step, current_direction, public.write() AS sagas,
                   updated_at AS longest_unchanged_since FROM surefoot.saga_instances"""
    )
    assert_problem(await client.get("/sagas/summary"), 503, "cannot execute INSERT in a read-only transaction")
    assert await ground.connection.fetchval("SELECT count(*) FROM written") == 0


async def test_it_says_whether_it_can_answer(client: httpx.AsyncClient, ground: Ground) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    await ground.connection.execute("ALTER SCHEMA surefoot RENAME TO elsewhere")
    assert_problem(await client.get("/healthz"), 503, "has no Surefoot tables")


async def test_a_database_that_went_away_is_said_so_and_found_again(
    client: httpx.AsyncClient, database_url: str, postgres_server: EmbeddedPostgres
) -> None:
    assert (await client.get("/healthz")).status_code == 200
    name = database_url.rsplit("/", 1)[1]
    server = await asyncpg.connect(postgres_server.url)
    try:
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        answer = await client.get("/sagas")
        assert_problem(answer, 503, "The database at postgresql://postgres:…@127.0.0.1")
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    finally:
        await server.close()
    assert (await client.get("/healthz")).status_code == 200


async def test_it_describes_itself(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    assert described["info"]["title"] == "Surefoot sagas"
    assert set(described["paths"]) == {
        "/sagas",
        "/sagas/summary",
        "/sagas/{saga_id}",
        "/sagas/{saga_id}/history",
        "/healthz",
    }
    for path in described["paths"].values():
        assert set(path) == {"get"}
        assert path["get"]["summary"]
        assert path["get"]["description"]
        assert "application/problem+json" in path["get"]["responses"]["503"]["content"]

"""Looking at dead letters over HTTP: groups, pages, one letter; what is masked, and what it takes to see it."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from surefoot.database.embedded import EmbeddedPostgres
from tests.support.corpus import each_of
from tests.support.dlq.http_harness import WHY, Ground, assert_problem, ground_at

SECRET = b'{"order_id": "1", "ship_to": {"name": "Ada Lovelace"}}'


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Ground]:
    async with ground_at(database_url) as ground:
        yield ground


async def test_pages_go_from_the_newest_to_the_oldest_and_stay_as_they_are(ground: Ground) -> None:
    ids = await ground.letters(5)
    first = (await ground.get("vera", "/events?limit=2")).json()
    assert [each["id"] for each in first["events"]] == [ids[4], ids[3]]
    second = (await ground.get("vera", f"/events?limit=2&after={first['next']}")).json()
    assert [each["id"] for each in second["events"]] == [ids[2], ids[1]]
    last = (await ground.get("vera", f"/events?limit=2&after={second['next']}")).json()
    assert ([each["id"] for each in last["events"]], last["next"]) == ([ids[0]], None)


async def test_groups_have_their_counts(ground: Ground) -> None:
    await ground.letters(3)
    page = (await ground.get("vera", "/groups")).json()
    assert [(each["fingerprint"], each["counts"]["open"]) for each in page["groups"]] == [("f" * 16, 3)]
    one = await ground.get("vera", f"/groups/{'f' * 16}")
    assert one.json()["consumer"] == "warehouse"
    assert (await ground.get("vera", "/groups?consumer=nobody")).json() == {"groups": [], "next": None}


async def test_a_letter_is_shown_with_its_data_masked(ground: Ground) -> None:
    (letter,) = await ground.letters(1, value=SECRET)
    answer = await ground.get("vera", f"/events/{letter}")
    assert answer.status_code == 200
    assert answer.json()["payload_form"] == "json"
    assert "Lovelace" not in answer.text


async def test_what_is_masked_is_shown_for_a_reason_that_is_recorded(ground: Ground) -> None:
    (letter,) = await ground.letters(1, value=SECRET)
    answer = await ground.post("ada", f"/events/{letter}/reveal", {"reason": "the buyer has called"})
    assert answer.json()["payload"]["ship_to"]["name"] == "Ada Lovelace"
    assert await ground.audit() == [("ada", "reveal", "done", letter)]
    assert await ground.connection.fetchval("SELECT max(reason) FROM surefoot.audit_log") == "the buyer has called"


async def test_a_second_look_under_the_same_key_is_recorded_as_one_and_stored_nowhere(ground: Ground) -> None:
    (letter,) = await ground.letters(1, value=SECRET)
    for _ in range(2):
        answer = await ground.post("ada", f"/events/{letter}/reveal", {"reason": WHY}, key="k")
        assert "Lovelace" in answer.text
    assert await ground.audit() == [("ada", "reveal", "done", letter)] * 2
    assert await ground.count("admin_requests") == 0


async def test_what_is_not_there_is_answered_with_a_sentence(ground: Ground) -> None:
    nobody = uuid4()
    assert_problem(await ground.get("vera", f"/events/{nobody}"), 404, f"There is no dead letter {nobody}")
    assert_problem(await ground.get("vera", "/groups/none"), 404, "There is no group none")
    assert_problem(await ground.get("vera", f"/jobs/{nobody}"), 404, f"There is no job {nobody}")
    assert_problem(await ground.get("vera", f"/jobs/{nobody}/items"), 404, f"There is no job {nobody}")
    assert_problem(await ground.get("vera", f"/approvals/{nobody}"), 404, f"There is no request {nobody}")
    assert_problem(await ground.get("vera", "/letters"), 404, "There is nothing at /admin/dlq/letters")
    assert await ground.audit() == []


@each_of(
    ("path", "says"),
    [
        ("/events?limit=201", "limit cannot be used: Input should be less than or equal to 200"),
        ("/groups?limit=0", "limit cannot be used: Input should be greater than or equal to 1"),
        ("/jobs?limit=1000", "limit cannot be used"),
        ("/approvals?limit=1000", "limit cannot be used"),
        ("/events?status=BROKEN", "status cannot be used: Input should be 'OPEN'"),
        ("/events?after=x", "The page cannot begin there"),
        ("/groups?after=x", "The page cannot begin there"),
        ("/jobs?after=x", "after cannot be used"),
        ("/events?key=a&key=b", "key is said more than once"),
        ("/events?statsu=OPEN", "statsu is not a parameter of this"),
        ("/events?failed_after=2026-01-01", "failed_after cannot be used"),
        ("/events/order-1", "id cannot be used"),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_answered_with_a_sentence(
    ground: Ground, path: str, says: str
) -> None:
    assert_problem(await ground.get("vera", path), 422, says)


async def test_a_text_with_a_nul_finds_nothing(ground: Ground) -> None:
    await ground.letters(1)
    assert (await ground.get("vera", "/events?key=a%00b")).json()["events"] == []
    assert_problem(await ground.get("vera", "/groups/a%00b"), 404, "There is no group")


async def test_reads_cannot_write(ground: Ground) -> None:
    """A table that writes when it is read: only a transaction that may write could."""
    await ground.connection.execute(
        """CREATE TABLE written (n int);
           CREATE FUNCTION write() RETURNS text LANGUAGE sql VOLATILE AS 'INSERT INTO public.written VALUES (1)
               RETURNING n::text';
           ALTER TABLE surefoot.dlq_groups RENAME TO kept_groups;
           CREATE VIEW surefoot.dlq_groups AS SELECT (jsonb_populate_record(NULL::surefoot.kept_groups,
               jsonb_build_object('fingerprint', public.write(), 'open', 1))).*"""
    )
    assert_problem(
        await ground.get("vera", "/groups?status=OPEN"), 503, "cannot execute INSERT in a read-only transaction"
    )
    assert await ground.connection.fetchval("SELECT count(*) FROM written") == 0


async def test_anybody_learns_whether_it_is_well_and_nothing_of_where_its_database_is(ground: Ground) -> None:
    answer = await ground.get(None, "/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    await ground.connection.execute("ALTER SCHEMA surefoot RENAME TO elsewhere")
    answer = await ground.get(None, "/healthz")
    assert_problem(answer, 503, "The database")
    assert "postgresql://" not in answer.text


async def test_a_database_that_went_away_is_said_so_and_nobody_is_let_in_meanwhile(
    ground: Ground, database_url: str, postgres_server: EmbeddedPostgres
) -> None:
    name = database_url.rsplit("/", 1)[1]
    server = await asyncpg.connect(postgres_server.url)
    try:
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        assert_problem(await ground.get("vera", "/events"), 503, "the database does not answer")
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    finally:
        await server.close()
    assert (await ground.get("vera", "/events")).status_code == 200


async def test_the_audit_log_is_paged_in_order(ground: Ground) -> None:
    (letter,) = await ground.letters(1)
    for _ in range(3):
        await ground.post("ada", f"/events/{letter}/reveal", {"reason": WHY})
    first = (await ground.get("ada", "/audit?after=5&limit=2")).json()
    assert [(line["number"], line["person"], line["action"]) for line in first["lines"]] == [
        (6, "ada", "reveal"),
        (7, "ada", "reveal"),
    ]
    rest = (await ground.get("ada", f"/audit?after={first['next']}&limit=2")).json()
    assert ([line["number"] for line in rest["lines"]], rest["next"]) == ([8], None)
    head = (await ground.get("ada", "/audit/head")).json()
    assert head == {"number": 8, "seal": rest["lines"][-1]["seal"]}

"""Pages of dead letters: every filter, in an order that stays, whatever comes and goes meanwhile."""

from datetime import timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import asyncpg
import pytest

from dlq.cursors import BadCursor
from dlq.filters import STATUSES, Filter
from dlq.looking import Looking
from schemas import catalogue
from surefoot.database.connection import Connection
from tests.integration.dlq.letters import NOON, dlq_id, headers, insert, letter

# Six letters that differ in everything one can ask for. Two share a group that nobody foresaw: a foreign consumer made
# its fingerprints by another rule.
LETTERS: list[dict[str, Any]] = [
    {"consumer": "warehouse", "fingerprint": "a", "status": "OPEN"},
    {"consumer": "warehouse", "fingerprint": "a", "status": "REPLAYED", "reason": "out_of_attempts"},
    {"consumer": "shipping", "fingerprint": "b", "status": "OPEN", "error_type": "Late", "saga_id": "s"},
    {"consumer": "shipping", "fingerprint": "mixed", "status": "OPEN", "event_type": None, "correlation_id": "flow"},
    {"consumer": "payment", "fingerprint": "mixed", "status": "DISCARDED", "error_type": "odd.Late", "key": "k"},
    {"consumer": "", "fingerprint": "c", "status": "OPEN", "reason": "unreadable_letter", "key": "k"},
]
SAME = {"saga_id": None, "correlation_id": None, "status": "OPEN"}


async def some_letters(connection: asyncpg.Connection) -> Looking:
    for number, changed in enumerate(LETTERS):
        await insert(cast(Connection, connection), [letter(number, **{**SAME, **changed})])
    return Looking(cast(Connection, connection), "surefoot")


async def numbers(looking: Looking, wanted: Filter, limit: int = 1) -> list[int]:
    """The letters of all pages, by number, in the order of the pages."""
    found: list[int] = []
    after = None
    while True:
        page = await looking.events(wanted, after, limit)
        assert len(page.events) <= limit
        found += [line.log_offset for line in page.events]
        after = page.next
        if after is None:
            return found


async def fingerprints(looking: Looking, wanted: Filter, limit: int = 1) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = await looking.groups(wanted, after, limit)
        found += [group.fingerprint for group in page.groups]
        after = page.next
        if after is None:
            return found


FILTERS: list[tuple[dict[str, Any], list[int], list[str]]] = [
    ({}, [5, 4, 3, 2, 1, 0], ["c", "mixed", "b", "a"]),
    ({"consumer": "warehouse"}, [1, 0], ["a"]),
    ({"consumer": "shipping"}, [3, 2], ["mixed", "b"]),
    ({"consumer": "payment"}, [4], ["mixed"]),
    ({"consumer": ""}, [5], ["c"]),
    ({"consumer": "nobody"}, [], []),
    ({"event_type": "order.placed"}, [5, 4, 2, 1, 0], ["c", "mixed", "b", "a"]),
    ({"event_type": ""}, [3], ["mixed"]),
    ({"error": "NoSuchArticle"}, [5, 3, 1, 0], ["c", "mixed", "a"]),
    ({"error": "shop.errors.NoSuchArticle"}, [5, 3, 1, 0], ["c", "mixed", "a"]),
    ({"error": "Late"}, [4, 2], ["mixed", "b"]),
    ({"error": "rticle"}, [], []),
    ({"reason": "permanent"}, [4, 3, 2, 0], ["mixed", "b", "a"]),
    ({"reason": "out_of_attempts"}, [1], ["a"]),
    ({"fingerprint": "a"}, [1, 0], ["a"]),
    ({"fingerprint": "mixed"}, [4, 3], ["mixed"]),
    ({"key": "k"}, [5, 4], ["c", "mixed"]),
    ({"saga_id": "s"}, [2], ["b"]),
    ({"correlation_id": "flow"}, [3], ["mixed"]),
    ({"status": "OPEN"}, [5, 3, 2, 0], ["c", "mixed", "b", "a"]),
    ({"status": "DISCARDED"}, [4], ["mixed"]),
    ({"status": "REPLAYING"}, [], []),
    ({"failed_after": NOON + timedelta(seconds=3)}, [5, 4, 3], ["c", "mixed"]),
    ({"failed_before": NOON + timedelta(seconds=2)}, [1, 0], ["a"]),
    ({"failed_after": NOON + timedelta(seconds=1), "failed_before": NOON + timedelta(seconds=3)}, [2, 1], ["b", "a"]),
    ({"failed_before": NOON + timedelta(seconds=2), "status": "REPLAYED"}, [1], ["a"]),
    ({"consumer": "shipping", "status": "OPEN", "error": "Late"}, [2], ["b"]),
    ({"consumer": "shipping", "event_type": "order.placed", "fingerprint": "mixed"}, [], []),
    ({"key": "k", "consumer": "payment", "status": "DISCARDED"}, [4], ["mixed"]),
    ({"key": "order-0", "failed_after": NOON}, [0], ["a"]),
    ({"fingerprint": "a", "status": "DISCARDED"}, [], []),
    ({"key": "\x00"}, [], []),
    ({"consumer": "ware\x00house"}, [], []),
    ({"error": "'"}, [], []),
]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_every_filter_finds_its_letters_and_their_groups_newest_first(
    connection: asyncpg.Connection, limit: int
) -> None:
    looking = await some_letters(connection)
    for asked, expected, groups in FILTERS:
        wanted = Filter.model_validate(asked)
        assert (asked, await numbers(looking, wanted, limit)) == (asked, expected)
        assert (asked, await fingerprints(looking, wanted, limit)) == (asked, groups)


@pytest.mark.parametrize(
    "wanted", [Filter(), Filter(consumer="warehouse"), Filter(failed_after=NOON), Filter(status="OPEN")]
)
async def test_pages_stay_as_they_are_while_letters_come_and_go(connection: asyncpg.Connection, wanted: Filter) -> None:
    driver = cast(Connection, connection)
    await insert(driver, [letter(number) for number in range(10)])
    looking = Looking(driver, "surefoot")
    first = await looking.events(wanted, None, 4)

    await insert(driver, [letter(number) for number in (10, 11)])
    await connection.execute("DELETE FROM surefoot.dlq_events WHERE log_offset IN (6, 4)")
    second = await looking.events(wanted, first.next, 4)

    assert [line.log_offset for line in first.events] == [9, 8, 7, 6]  # and 6, where the page ended, is gone
    assert [line.log_offset for line in second.events] == [5, 3, 2, 1]


async def test_pages_of_groups_stay_as_they_are_while_groups_grow_and_begin(connection: asyncpg.Connection) -> None:
    driver = cast(Connection, connection)
    for number in range(4):
        await insert(driver, [letter(number, fingerprint=f"f{number}")])
    looking = Looking(driver, "surefoot")
    first = await looking.groups(Filter(), None, 2)

    await insert(driver, [letter(10, fingerprint="f0"), letter(11, fingerprint="f9")])
    second = await looking.groups(Filter(), first.next, 2)

    assert [group.fingerprint for group in first.groups] == ["f3", "f2"]
    assert [(group.fingerprint, group.total) for group in second.groups] == [("f1", 1), ("f0", 2)]
    assert second.next is None


async def test_letters_of_one_moment_are_all_on_some_page(connection: asyncpg.Connection) -> None:
    driver = cast(Connection, connection)
    await insert(driver, [letter(number, failed_at=NOON, fingerprint=f"f{number}") for number in range(7)])
    looking = Looking(driver, "surefoot")
    assert await numbers(looking, Filter(failed_after=NOON), 3) == [6, 5, 4, 3, 2, 1, 0]
    assert await fingerprints(looking, Filter(), 3) == ["f6", "f5", "f4", "f3", "f2", "f1", "f0"]


@pytest.mark.parametrize(
    ("wanted", "after"),
    [
        (Filter(), "nowhere"),
        (Filter(), ""),
        (Filter(), "1763294400000000_0192f0c1-0000-7000-8000-000000000001"),
        (Filter(failed_after=NOON), "0192f0c1-0000-7000-8000-000000000001"),
        (Filter(failed_after=NOON), "1_nowhere"),
        (Filter(consumer="warehouse"), "\x00"),
    ],
)
async def test_a_page_from_nowhere_is_refused_with_a_sentence(
    connection: asyncpg.Connection, wanted: Filter, after: str
) -> None:
    looking = Looking(cast(Connection, connection), "surefoot")
    with pytest.raises(BadCursor, match="must be the `next` of a page that was asked for by the same filter"):
        await looking.events(wanted, after, 10)


async def test_a_page_of_groups_from_nowhere_is_refused_too(connection: asyncpg.Connection) -> None:
    looking = Looking(cast(Connection, connection), "surefoot")
    for after in ("nowhere", "0192f0c1-0000-7000-8000-000000000001", "1_\x00"):
        with pytest.raises(BadCursor):
            await looking.groups(Filter(), after, 10)


async def test_a_group_says_what_its_letters_have_in_common_and_how_many_there_are(
    connection: asyncpg.Connection,
) -> None:
    looking = await some_letters(connection)
    found = await looking.group("a")
    assert found is not None
    assert (found.consumer, found.event_type, found.error_type) == (
        "warehouse",
        "order.placed",
        "shop.errors.NoSuchArticle",
    )
    assert (found.reason, found.sentence) == ("out_of_attempts", "There is no article 7.")
    assert (found.first_at, found.last_at) == (NOON, NOON + timedelta(seconds=1))
    assert (found.total, found.counts.open, found.counts.replayed, found.counts.discarded) == (2, 1, 1, 0)
    assert await looking.group("nothing") is None
    assert await looking.group("\x00") is None


async def test_one_letter_has_its_masked_data_its_attempts_and_what_belongs_to_it(
    connection: asyncpg.Connection,
) -> None:
    address = b'{"order_id": "o-1", "ship_to": {"name": "Ada", "street": "1 Main St", "country": "GB"}, "more": 1}'
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": "e",
        "ce_source": "/orders",
        "ce_type": "order.create",
        "ce_dataschema": "urn:surefoot:order.create:1",
        "x-who": "Ada",
    }
    one = {"correlation_id": "flow", "saga_id": str(uuid4())}
    await insert(cast(Connection, connection), [
        letter(1, **one, value=address, headers=headers(attributes), stack="Traceback", attempts=2,
               failures='[["2026-11-16T12:00:00.000000Z", "it failed"]]'),
    ])  # fmt: skip
    await insert(cast(Connection, connection), [letter(2, correlation_id="flow"), letter(3, correlation_id="other")])

    found = await Looking(cast(Connection, connection), "surefoot").event(dlq_id(1), catalogue)

    assert found is not None
    assert found.payload_form == "json"
    assert found.payload == {
        "order_id": "o-1",
        "ship_to": {"name": "•••", "street": "•••", "country": "GB"},
        "more": "•••",
    }
    assert found.headers[-1] == ("x-who", "•••")
    assert found.headers[1] == ("ce_id", "e")
    assert [(one.at, one.error) for one in found.failures] == [("2026-11-16T12:00:00.000000Z", "it failed")]
    assert (found.stack, found.attempts, found.value_bytes) == ("Traceback", 2, len(address))
    assert [line.log_offset for line in found.flow] == [2]
    assert (found.saga, found.waiting, found.history.jobs, found.history.approvals) == (None, None, [], [])


async def test_who_may_see_it_all_gets_the_bytes_as_they_are(connection: asyncpg.Connection) -> None:
    await insert(cast(Connection, connection), [letter(1, value=b"\xff\x00", record_key=b"\x01", headers=headers({}))])
    looking = Looking(cast(Connection, connection), "surefoot")
    found = await looking.revealed(dlq_id(1))
    assert found is not None
    assert (found.value_base64, found.record_key_base64, found.payload_form, found.payload) == (
        "/wA=",
        "AQ==",
        "other",
        None,
    )
    assert await looking.revealed(uuid4()) is None
    assert await looking.event(uuid4(), catalogue) is None


async def test_a_letter_of_a_saga_in_this_database_says_how_that_stands(connection: asyncpg.Connection) -> None:
    saga_id = uuid4()
    await connection.execute(
        """INSERT INTO surefoot.saga_instances (saga_id, saga_type, definition_version, entity_id, correlation_id,
               start_event_id, status, current_step, context, standing, version)
           VALUES ($1, 'order_placement', 1, 'order-1', 'flow', 'e', 'RUNNING', 'reserve_stock', '{}', '{}', 1)""",
        saga_id,
    )
    await insert(cast(Connection, connection), [letter(1, saga_id=str(saga_id)), letter(2, saga_id="no uuid")])
    looking = Looking(cast(Connection, connection), "surefoot")
    found, other = await looking.event(dlq_id(1), catalogue), await looking.event(dlq_id(2), catalogue)
    assert found is not None
    assert found.saga is not None
    assert (found.saga.saga_type, found.saga.status, found.saga.current_step) == (
        "order_placement",
        "RUNNING",
        "reserve_stock",
    )
    assert other is not None
    assert other.saga is None


async def parked(connection: asyncpg.Connection, offset: int, key: str = "order-1", holds: bool = True) -> None:
    await connection.execute(
        """INSERT INTO surefoot.parked_events (consumer, topic, partition, log_offset, key, source, event_id, state,
               holds, headers, recorded_at)
           VALUES ('warehouse', 'order.events', 0, $1, $2, '/tests', $3, 'WAITING', $4, '[]', now())""",
        offset,
        key,
        f"e-{offset}",
        holds,
    )


async def test_what_waits_behind_it_is_read_from_its_consumer_if_that_is_here(connection: asyncpg.Connection) -> None:
    await insert(cast(Connection, connection), [letter(1, log_offset=10, key="order-1")])
    await connection.execute(
        "INSERT INTO surefoot.consumer_partitions (consumer, topic, partition) VALUES ('warehouse', 'order.events', 0)"
    )
    for offset in (9, 10, *range(11, 41)):
        await parked(connection, offset)
    await parked(connection, 50, key="order-2")
    await parked(connection, 51, holds=False)

    found = await Looking(cast(Connection, connection), "surefoot").event(dlq_id(1), catalogue)

    assert found is not None
    assert found.waiting is not None
    assert (found.waiting.known_from, found.waiting.count, found.waiting.is_more) == ("consumer", 30, False)
    assert [line.log_offset for line in found.waiting.first] == list(range(11, 31))


async def test_of_a_consumer_elsewhere_it_is_known_from_the_latest_answer(connection: asyncpg.Connection) -> None:
    await insert(cast(Connection, connection), [letter(1)])
    for number, (kind, behind, minute) in enumerate([("inspect", 3, 1), ("inspect", 7, 2), ("replay", 9, 3)]):
        await job_of(connection, dlq_id(1), kind, number, behind=behind, minute=minute)

    found = await Looking(cast(Connection, connection), "surefoot").event(dlq_id(1), catalogue)

    assert found is not None
    assert found.waiting is not None
    assert (found.waiting.known_from, found.waiting.count) == ("inspect", 7)
    assert found.waiting.at == NOON + timedelta(minutes=2)
    assert [job.kind for job in found.history.jobs] == ["replay", "inspect", "inspect"]
    assert {job.answer for job in found.history.jobs} == {"inspected"}


async def job_of(
    connection: asyncpg.Connection, event: UUID, kind: str, number: int, *, behind: int, minute: int
) -> None:
    job_id = UUID(int=number)
    await connection.execute(
        """INSERT INTO surefoot.dlq_jobs (id, kind, asked, reason, created_by, total, created_at)
           VALUES ($1, $2::text::surefoot.dlq_job_kind, '{}', 'why', 'Ada', 1, $3)""",
        job_id,
        kind,
        NOON + timedelta(minutes=minute),
    )
    await connection.execute(
        """INSERT INTO surefoot.dlq_job_items (job_id, number, dlq_id, lane, control_id, state, answer, waiting_behind,
               answered_at)
           VALUES ($1, 1, $2, 'lane', $3, 'ANSWERED', 'inspected', $4, $5)""",
        job_id,
        event,
        uuid4(),
        behind,
        NOON + timedelta(minutes=minute),
    )


async def test_who_asked_for_a_discard_is_part_of_its_history(connection: asyncpg.Connection) -> None:
    await insert(cast(Connection, connection), [letter(1)])
    approval_id = uuid4()
    await connection.execute(
        """INSERT INTO surefoot.dlq_approvals (id, reason, requested_by, expires_at, total, set_hash)
           VALUES ($1, 'never again', 'Ada', now(), 1, 'h')""",
        approval_id,
    )
    await connection.execute("INSERT INTO surefoot.dlq_approval_items VALUES ($1, $2)", approval_id, dlq_id(1))
    history = await Looking(cast(Connection, connection), "surefoot").history_of(dlq_id(1))
    assert [(one.approval_id, one.status, one.requested_by) for one in history.approvals] == [
        (approval_id, "WAITING", "Ada")
    ]


def test_every_status_has_a_count() -> None:
    from dlq.views import Counts

    assert [status.lower() for status in STATUSES] == list(Counts.model_fields)

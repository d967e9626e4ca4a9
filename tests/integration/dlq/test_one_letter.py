"""One dead letter: its masked data, its saga and flow, what waits behind it, what was decided about it."""

from datetime import timedelta
from typing import cast
from uuid import UUID, uuid4

import asyncpg

from schemas import catalogue
from surefoot.database.connection import Connection
from surefoot.dlq.letters.looking import Looking
from tests.support.dlq.letter_rows import NOON, dlq_id, headers, insert, letter


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

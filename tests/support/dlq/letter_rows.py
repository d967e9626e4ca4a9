"""Dead letters for tests that look at them: rows as the intake writes them, without an intake."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import uuid_utils

from surefoot.database.connection import Connection

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HEADERS = {
    "ce_specversion": "1.0",
    "ce_id": "e1",
    "ce_source": "/tests",
    "ce_type": "order.placed",
    "content-type": "application/json",
}


def headers(values: Mapping[str, str] = HEADERS) -> str:
    return json.dumps([[name, base64.b64encode(value.encode()).decode()] for name, value in values.items()])


def letter(number: int = 0, **changed: Any) -> dict[str, Any]:
    """A row of dlq_events; those with a higher number are newer, by id and by time."""
    failed_at = changed.get("failed_at", NOON + timedelta(seconds=number))
    return {
        "id": dlq_id(number),
        "consumer": "warehouse",
        "source": "/tests",
        "event_id": f"event-{number}",
        "event_type": "order.placed",
        "topic": "order.events",
        "partition": 0,
        "log_offset": number,
        "key": f"order-{number}",
        "recorded_at": NOON,
        "value": b'{"order_id": "1"}',
        "headers": headers(),
        "reason": "permanent",
        "error_type": "shop.errors.NoSuchArticle",
        "error": "There is no article 7.",
        "fingerprint": "f" * 16,
        "held": True,
        "letter_id": f"letter-{number}",
        "first_failed_at": failed_at,
        "failed_at": failed_at,
        **changed,
    }


def dlq_id(number: int) -> UUID:
    """Rises with the number."""
    return UUID(f"0192f0c1-0000-7000-8000-{number:012x}")


def new_id() -> UUID:
    return UUID(str(uuid_utils.uuid7()))


async def insert(connection: Connection, letters: Sequence[Mapping[str, Any]]) -> None:
    """In one statement for all that have the same columns, in order."""
    columns = list(letters[0])
    cast = {"status": "::text::surefoot.dlq_status", "headers": "::text::json", "failures": "::text::json"}
    row = ", ".join(f"r.{name}{cast.get(name, '')}" for name in columns)
    kinds = {
        "id": "uuid", "job_id": "uuid", "partition": "int", "log_offset": "bigint", "attempts": "int",
        "replays": "int", "deaths": "int", "held": "bool", "record_key": "bytea", "value": "bytea",
        "headers_left_out": "int",
    }  # fmt: skip
    of_time = ("recorded_at", "first_failed_at", "failed_at", "received_at", "resolved_at")
    arrays = ", ".join(
        f"${at}::{kinds.get(name, 'timestamptz' if name in of_time else 'text')}[]"
        for at, name in enumerate(columns, 1)
    )
    await connection.execute(
        f"""INSERT INTO surefoot.dlq_events ({", ".join(columns)}) SELECT {row}
            FROM unnest({arrays}) AS r({", ".join(columns)})""",
        *([each[name] for each in letters] for name in columns),
    )

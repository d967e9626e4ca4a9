"""What the tests' handlers do: write one row for each event, so that effects can be counted and put in order."""

from typing import Any

import asyncpg
from sqlalchemy import text

from surefoot.consumer import Transaction
from surefoot.events import Event

EFFECTS = "CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, event_id text, key text, number int)"
INSERT = text("INSERT INTO effects (event_id, key, number) VALUES (:event_id, :key, :number)")


async def have_effect(event: Event[Any], tx: Transaction) -> None:
    row = {"event_id": event.id, "key": event.key, "number": getattr(event.data, "number", 0)}
    await tx.session.execute(INSERT, row)


async def effects(connection: asyncpg.Connection, key: str | None = None) -> list[int]:
    """The numbers of the events that had their effect, in order."""
    rows = await connection.fetch("SELECT number FROM effects WHERE $1::text IS NULL OR key = $1 ORDER BY n", key)
    return [row["number"] for row in rows]

"""What an operator can see of idempotency keys. It reads, and changes nothing.

The key itself is nowhere: whoever knows it finds its row by tenant and key. Bodies are read only where they are asked
for, and requests, which are encrypted, never.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema

HISTORY_SHOWN = 1000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A key, as lists show it."""

    key_hash: str
    tenant: str
    route: str
    effect: str
    state: str
    attempts: int
    outcome_unknown: bool
    recovery_point: str | None
    resource: str | None
    error: str | None
    status: int | None
    owner: str
    created_at: datetime
    lease_in_s: float | None
    due_in_s: float | None


@dataclass(frozen=True, slots=True)
class PhaseLine:
    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class PendingCall:
    provider_key: str
    calls: int
    created_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class HistoryLine:
    number: int
    at: datetime
    fence: int
    what: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeyDetails:
    """The rest of what is known of one."""

    fence: int
    fingerprint: str
    fingerprint_version: int
    minted: Mapping[str, Any]
    answered_at: datetime | None
    replay_until: datetime
    gone_until: datetime


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Shown:
    """All that is known of a key: its row (none if it was deleted since), and what has happened to it."""

    line: KeyLine | None
    details: KeyDetails | None
    phases: list[PhaseLine]
    pending_call: PendingCall | None
    history: list[HistoryLine]
    answer: StoredAnswer | None


_IN_SECONDS = "extract(epoch FROM {} - now())::float8"
_LINE = f"""encode(key_hash, 'hex') AS key_hash, tenant, route, effect, state::text, attempts, outcome_unknown,
    recovery_point, resource, error, status, owner, created_at,
    {_IN_SECONDS.format("lease_until")} AS lease_in_s, {_IN_SECONDS.format("due_at")} AS due_in_s"""


class Looking:
    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = checked_schema(schema)

    async def keys(self, *, tenant: str | None, state: str | None, route: str | None, limit: int) -> list[KeyLine]:
        """Newest first."""
        found = await self._connection.fetch(
            f"""SELECT {_LINE} FROM {self._schema}.idempotency_keys
                WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR state::text = $2)
                  AND ($3::text IS NULL OR route = $3)
                ORDER BY created_at DESC, key_hash LIMIT $4""",
            *(tenant, state, route, limit),
        )
        return [_as(KeyLine, row) for row in found]

    async def stuck(self, *, limit: int) -> list[KeyLine]:
        """Those that nobody works on as they should, and those whose outcome nobody knows. Oldest first."""
        found = await self._connection.fetch(
            f"""SELECT {_LINE} FROM {self._schema}.idempotency_keys
                WHERE key_hash IN (SELECT decode(key_hash, 'hex') FROM {self._schema}.idempotency_stuck)
                ORDER BY created_at, key_hash LIMIT $1""",
            limit,
        )
        return [_as(KeyLine, row) for row in found]

    async def show(self, key_hash: bytes, *, answer: bool) -> Shown | None:
        """None if nothing was ever heard of it."""
        row = await self._connection.fetchrow(
            f"""SELECT {_LINE}, fence, encode(fingerprint, 'hex') AS fingerprint, fingerprint_version, minted::text,
                    answered_at, replay_until, gone_until
                FROM {self._schema}.idempotency_keys WHERE key_hash = $1""",
            key_hash,
        )
        history = await self._history(key_hash)
        if row is None:
            return Shown(None, None, [], None, history, None) if history else None
        details = {field.name: row[field.name] for field in fields(KeyDetails)}
        return Shown(
            line=_as(KeyLine, row),
            details=KeyDetails(**{**details, "minted": json.loads(details["minted"])}),
            phases=await self._phases(key_hash),
            pending_call=await self._pending_call(key_hash),
            history=history,
            answer=await self._answer(key_hash) if answer else None,
        )

    async def _phases(self, key_hash: bytes) -> list[PhaseLine]:
        found = await self._connection.fetch(
            f"SELECT name, at FROM {self._schema}.idempotency_phases WHERE key_hash = $1 ORDER BY at, name", key_hash
        )
        return [_as(PhaseLine, row) for row in found]

    async def _pending_call(self, key_hash: bytes) -> PendingCall | None:
        row = await self._connection.fetchrow(
            f"""SELECT provider_key, calls, created_at, closed_at FROM {self._schema}.pending_calls
                WHERE key_hash = $1""",
            key_hash,
        )
        return None if row is None else _as(PendingCall, row)

    async def _history(self, key_hash: bytes) -> list[HistoryLine]:
        """The latest, in their order."""
        found = await self._connection.fetch(
            f"""SELECT number, at, fence, what, details::text FROM {self._schema}.idempotency_history
                WHERE key_hash = $1 ORDER BY number DESC LIMIT {HISTORY_SHOWN}""",
            key_hash,
        )
        return [
            HistoryLine(row["number"], row["at"], row["fence"], row["what"], json.loads(row["details"]))
            for row in reversed(found)
        ]

    async def _answer(self, key_hash: bytes) -> StoredAnswer | None:
        row = await self._connection.fetchrow(
            f"""SELECT status, headers::text, body FROM {self._schema}.idempotency_keys
                WHERE key_hash = $1 AND status IS NOT NULL AND headers IS NOT NULL AND body IS NOT NULL""",
            key_hash,
        )
        if row is None:
            return None
        return StoredAnswer(row["status"], [(name, value) for name, value in json.loads(row["headers"])], row["body"])


def _as(kind: type[T], row: Row) -> T:
    return kind(**{field.name: row[field.name] for field in fields(kind)})  # type: ignore[arg-type]

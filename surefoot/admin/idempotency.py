"""Every write once: a request under an Idempotency-Key is done the first time, and answered again after that.

The answer is stored in the transaction of the write, so there is never one without the other. A key is a person's own.
Two at once: one works; the other waits for a moment, holding no connection, and then gives the same answer.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.responses import Response
from prometheus_client import Counter
from pydantic import BaseModel

from surefoot.audit.people import Person
from surefoot.database import locks
from surefoot.database.connection import Connection, Pool
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import SurefootError
from surefoot.failpoints import failpoint
from surefoot.http.middleware import JSON

REPLAYED_ANSWERS = Counter(
    "surefoot_dlq_api_answers_replayed_total", "Requests under a known Idempotency-Key, answered as before."
)
WAIT_S = 2.0
LOOK_EVERY_S = 0.02
STATEMENT_TIMEOUT_S = 30
_KEY = re.compile(r"[\x21-\x7e]{1,255}")

Work = Callable[[Connection], Awaitable[BaseModel]]


class BadKey(SurefootError):
    """An Idempotency-Key is 1 to 255 printable characters of ASCII, without spaces: a UUID is best."""


class KeyReused(SurefootError):
    """This Idempotency-Key was used for another request: take a new one for each thing you want done."""


class InFlight(SurefootError):
    """A request under this Idempotency-Key is being worked on: ask again in a moment, with the same key."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A request that changes something."""

    pool: Pool
    schema: str
    settings: DlqSettings
    person: Person
    key: str | None
    fingerprint: bytes

    async def do(self, work: Work, status: int = 202) -> Response:
        """Do the work in one transaction, or give the answer that was given before."""
        if self.key is None:
            async with self.pool.acquire() as connection:
                answer = await self._work(connection, work, status)
        else:
            answer = await self._once(self.key, work, status)
        await failpoint("dlq.job.created")
        return answer

    async def anew(self, work: Work, status: int = 200) -> Response:
        """Do it in one transaction, and keep nothing of the answer, whatever its key."""
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'")
            return Response((await work(connection)).model_dump_json().encode(), status, media_type=JSON)

    async def _once(self, key: str, work: Work, status: int) -> Response:
        give_up_at = time.monotonic() + WAIT_S
        while True:
            async with self.pool.acquire() as connection, connection.transaction():
                if await self._is_ours(connection, key):
                    return await self._answered(connection, key) or await self._work(connection, work, status)
            if time.monotonic() >= give_up_at:
                raise InFlight
            await asyncio.sleep(LOOK_EVERY_S)

    async def _is_ours(self, connection: Connection, key: str) -> bool:
        """Tried, and not waited for: 200 that wait would empty the pool."""
        ours: bool = await connection.fetchval(
            "SELECT pg_try_advisory_xact_lock($1::int, hashtext($2::text))",
            locks.ADMIN_REQUEST,
            f"{self.schema}/{key}/{self.person.name}",
        )
        return ours

    async def _answered(self, connection: Connection, key: str) -> Response | None:
        row = await connection.fetchrow(
            f"""SELECT fingerprint, status, body FROM {self.schema}.admin_requests
                WHERE person = $1::text AND key = $2::text""",
            self.person.name,
            key,
        )
        if row is None:
            return None
        if bytes(row["fingerprint"]) != self.fingerprint:
            raise KeyReused
        REPLAYED_ANSWERS.inc()
        return Response(bytes(row["body"]), row["status"], media_type=JSON, headers={"X-Idempotency-Replayed": "true"})

    async def _work(self, connection: Connection, work: Work, status: int) -> Response:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'")
            body = (await work(connection)).model_dump_json().encode()
            if self.key is not None:
                await connection.execute(
                    f"""INSERT INTO {self.schema}.admin_requests (person, key, fingerprint, status, body)
                        VALUES ($1::text, $2::text, $3::bytea, $4::int, $5::bytea)""",
                    self.person.name,
                    self.key,
                    self.fingerprint,
                    status,
                    body,
                )
        return Response(body, status, media_type=JSON)


async def _writing(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Of your own making, new for each thing you want done. Under the same one it is done once, and "
            "answered as it was.",
            json_schema_extra={"minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        ),
    ] = None,
) -> Writing:
    if idempotency_key is not None and _KEY.fullmatch(idempotency_key) is None:
        raise BadKey
    state = request.app.state
    person: Person = request.state.person
    return Writing(state.pool, state.schema, state.settings, person, idempotency_key, await _fingerprint(request))


async def _fingerprint(request: Request) -> bytes:
    digest = hashlib.sha256()
    for part in (request.method.encode(), str(request.url.path).encode(), await request.body()):
        digest.update(len(part).to_bytes(8) + part)
    return digest.digest()


Write = Annotated[Writing, Depends(_writing, scope="function")]

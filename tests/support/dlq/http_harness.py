"""The admin service in the test's own process, on a real database, with a person of every role."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import asyncpg
import httpx
from fastapi import FastAPI

from schemas import catalogue
from surefoot.admin import PREFIX, api
from surefoot.audit.access import Access, Tokens
from surefoot.audit.people import Role
from surefoot.audit.settings import AccessSettings
from surefoot.database.connection import Connection
from surefoot.dlq.settings import DlqSettings
from surefoot.events import Catalogue
from tests.support.dlq.letter_rows import insert, letter

PEOPLE: dict[str, Role] = {
    "vera": "VIEWER",
    "otto": "OPERATOR",
    "ada": "ADMIN",
    "sue": "SUPER_ADMIN",
    "sam": "SUPER_ADMIN",
}
WHY = "the price list is there now"
# So that no test runs into a limit that it does not look at.
GENEROUS: dict[str, Any] = {
    "requests_per_second": 10_000,
    "requests_at_once": 100_000,
    "refusals_recorded_per_minute": 1000,
}


@dataclass(frozen=True, slots=True)
class Ground:
    url: str
    app: FastAPI
    connection: asyncpg.Connection
    tokens: dict[str, str]
    client: httpx.AsyncClient

    async def ask(
        self, person: str | None, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> httpx.Response:
        """As this person; None is nobody."""
        headers = {} if person is None else {"Authorization": f"Bearer {self.tokens[person]}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return await self.client.request(method, PREFIX + path, json=body, headers=headers)

    async def get(self, person: str | None, path: str) -> httpx.Response:
        return await self.ask(person, "GET", path)

    async def post(self, person: str | None, path: str, body: Any, *, key: str | None = None) -> httpx.Response:
        return await self.ask(person, "POST", path, body, key=key)

    async def letters(self, many: int = 3, **changed: Any) -> list[str]:
        """Dead letters, and their ids."""
        made = [letter(number, **changed) for number in range(many)]
        await insert(cast(Connection, self.connection), made)
        return [str(each["id"]) for each in made]

    async def audit(self) -> list[tuple[str, str, str, str]]:
        """Person, action, outcome and what it was about, of every row; tokens that were made are left out."""
        rows = await self.connection.fetch(
            """SELECT person, action, outcome, about FROM surefoot.audit_log WHERE action <> 'token_made'
               ORDER BY number"""
        )
        return [tuple(row) for row in rows]

    async def refused(self) -> list[tuple[str, str, str]]:
        """Person, action and what it was about, of everything that was refused."""
        return [
            (person, action, about) for person, action, outcome, about in await self.audit() if outcome == "refused"
        ]

    async def statuses(self) -> list[str]:
        rows = await self.connection.fetch("SELECT status::text FROM surefoot.dlq_events ORDER BY id")
        return [row[0] for row in rows]

    async def count(self, table: str) -> int:
        found: int = await self.connection.fetchval(f"SELECT count(*) FROM surefoot.{table}")
        return found


@asynccontextmanager
async def ground_at(
    url: str,
    *,
    settings: DlqSettings | None = None,
    access: Access | None = None,
    people: Sequence[str] = tuple(PEOPLE),
    types: Catalogue = catalogue,
    **limits: Any,
) -> AsyncIterator[Ground]:
    app = api(
        url,
        "surefoot",
        settings or DlqSettings(),
        access or Access(AccessSettings(**{**GENEROUS, **limits})),
        types,
    )
    connection = await asyncpg.connect(url)
    try:
        tokens = {name: await token_for(connection, name, PEOPLE[name]) for name in people}
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                yield Ground(url, app, connection, tokens, client)
    finally:
        await connection.close()


async def token_for(connection: asyncpg.Connection, name: str, role: Role) -> str:
    async with connection.transaction():
        tokens = Tokens(cast(Connection, connection), "surefoot")
        return (await tokens.create(name, role, lifetime=timedelta(days=1), by="root")).token


def assert_problem(response: httpx.Response, status: int, says: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    problem = response.json()
    assert problem["status"] == status
    assert says in problem["detail"], problem["detail"]
    assert problem["detail"].rstrip().endswith((".", "…"))

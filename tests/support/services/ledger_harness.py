"""What the tests of the ledger share: a ledger on a database of its own, and one protection taken out of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from services.checks.ledger import Violation, findings, read_books
from services.ledger import Ledger, Move, statements
from services.ledger.moves import CONTENTION_RETRY, ContentionRetry
from services.ledger.statements import Statement
from services.tables import create_tables
from surefoot.database.address import sqlalchemy_url
from surefoot.events import Money
from tests.support.waiting import eventually


def eur(amount: str) -> Money:
    return Money(Decimal(amount), "EUR")


@asynccontextmanager
async def ledger_on(
    url: str, *, connections: int = 16, retry: ContentionRetry = CONTENTION_RETRY
) -> AsyncIterator[Ledger]:
    """Its accounts are still to be opened. A deadlock is found at once, and not after a second."""
    await create_tables(url, "ledger")
    engine = engine_on(url, connections)
    yield Ledger(engine, retry=retry)
    await engine.dispose()


def engine_on(url: str, connections: int) -> AsyncEngine:
    settings = {"server_settings": {"deadlock_timeout": "50ms"}}
    return create_async_engine(sqlalchemy_url(url), pool_size=connections, connect_args=settings)


async def said(url: str, sql: str) -> None:
    """Say it to the database."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def somebody_waits(url: str) -> None:
    """Returns when a connection to this database waits for a lock."""
    connection = await asyncpg.connect(url)

    async def look() -> bool:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(await connection.fetchval(waiting))

    try:
        await eventually(look, what="somebody waits for a lock")
    finally:
        await connection.close()


async def violations(url: str) -> set[Violation]:
    return {found.violation for found in findings(await read_books(url))}


def without(monkeypatch: pytest.MonkeyPatch, protection: str, instead: str) -> None:
    """From now on the statement of a move says something else in this place."""
    real = statements.move

    def weakened(asked: Move) -> Statement:
        statement = real(asked)
        assert statement.sql.count(protection) == 1
        return replace(statement, sql=statement.sql.replace(protection, instead))

    monkeypatch.setattr(statements, "move", weakened)

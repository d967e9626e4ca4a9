"""The services' tables: made once however many ask at a time, beside each other or in a database of their own."""

import asyncio

import asyncpg

from services.tables import create_tables, tables_of
from tests.integration.services.conftest import SERVICES


async def schemas(connection: asyncpg.Connection) -> set[str]:
    rows = await connection.fetch("SELECT DISTINCT table_schema FROM information_schema.tables")
    return {row[0] for row in rows} - {"pg_catalog", "information_schema"}


async def test_tables_are_made_once_by_processes_that_start_at_the_same_time(database_url: str) -> None:
    await asyncio.gather(*(create_tables(database_url, service) for service in SERVICES for _ in range(2)))
    connection = await asyncpg.connect(database_url)
    try:
        wanted = {"checkout", "orders", "warehouse", "shipping", "returns", "notification", "flow", "surefoot"}
        assert await schemas(connection) == wanted
        await connection.execute("INSERT INTO warehouse.stock (sku, on_hand) VALUES ('table', 1)")
        await create_tables(database_url, "warehouse")
        assert await connection.fetchval("SELECT on_hand FROM warehouse.stock") == 1
    finally:
        await connection.close()


async def test_a_service_can_have_a_database_of_its_own(empty_database_url: str) -> None:
    await create_tables(empty_database_url, "warehouse")
    connection = await asyncpg.connect(empty_database_url)
    try:
        assert await schemas(connection) == {"warehouse"}
    finally:
        await connection.close()


def test_every_service_has_a_schema_of_its_own() -> None:
    assert len({tables_of(service).schema for service in SERVICES}) == len(SERVICES)

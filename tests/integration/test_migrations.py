"""The migrated schema is the declared one, to the last partial index."""

import asyncpg
from sqlalchemy.ext.asyncio import create_async_engine

from surefoot.database.address import sqlalchemy_url
from surefoot.database.migrate import migrate
from surefoot.database.tables import metadata
from surefoot.database.version import newest_version, stored_version

CATALOGUE = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
               pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d
             ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY 1, a.attnum""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = $1::regnamespace ORDER BY 1, 2""",
    "indexes": """
        SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = $1::regnamespace ORDER BY 1""",
    "options": """
        SELECT relname, reloptions FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY 1""",
    "functions": """
        SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace ORDER BY 1""",
    "triggers": """
        SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = $1::regnamespace AND NOT t.tgisinternal ORDER BY 1""",
    "enums": """
        SELECT t.typname, array_agg(e.enumlabel ORDER BY e.enumsortorder)
        FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid WHERE t.typnamespace = $1::regnamespace GROUP BY 1""",
    "views": """
        SELECT relname, pg_get_viewdef(oid) FROM pg_class
        WHERE relnamespace = $1::regnamespace AND relkind = 'v' ORDER BY 1""",
}


async def shape(url: str, schema: str) -> dict[str, list[str]]:
    connection = await asyncpg.connect(url)
    try:
        found = {}
        for part, query in CATALOGUE.items():
            rows = [repr(tuple(row)).replace(f"{schema}.", "SCHEMA.") for row in await connection.fetch(query, schema)]
            found[part] = [row for row in rows if "schema_version" not in row]
        return found
    finally:
        await connection.close()


async def test_the_migrated_schema_is_the_declared_one(empty_database_url: str) -> None:
    await migrate(empty_database_url, schema="migrated")
    engine = create_async_engine(sqlalchemy_url(empty_database_url))
    async with engine.begin() as connection:
        await connection.exec_driver_sql("CREATE SCHEMA surefoot")
        await connection.run_sync(metadata.create_all)
    await engine.dispose()

    migrated, declared = await shape(empty_database_url, "migrated"), await shape(empty_database_url, "surefoot")

    assert migrated == declared
    assert any("WHERE (status" in index and "PENDING" in index for index in declared["indexes"])
    assert len(declared["constraints"]) > 10
    assert declared["enums"]
    assert declared["triggers"]


async def test_the_comparison_sees_a_missing_partial_index(empty_database_url: str) -> None:
    await migrate(empty_database_url, schema="first")
    await migrate(empty_database_url, schema="second")
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(
        "DROP INDEX second.outbox_events_pending;"
        "CREATE INDEX outbox_events_pending ON second.outbox_events (shard, position) WHERE status = 'FAILED'"
    )
    await connection.close()
    assert await shape(empty_database_url, "first") != await shape(empty_database_url, "second")


async def test_migrating_again_changes_nothing_and_shards_stay(empty_database_url: str) -> None:
    assert (await stored_version(empty_database_url)).version is None
    await migrate(empty_database_url, shards=4)
    before = await shape(empty_database_url, "surefoot")
    await migrate(empty_database_url, shards=16)

    assert await shape(empty_database_url, "surefoot") == before
    assert (await stored_version(empty_database_url)).version == newest_version()
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT shards FROM surefoot.outbox_settings") == 4
    await connection.close()


async def test_two_migrations_at_once_do_not_collide(empty_database_url: str) -> None:
    import asyncio

    versions = await asyncio.gather(*(migrate(empty_database_url) for _ in range(4)))
    assert versions == [newest_version()] * 4

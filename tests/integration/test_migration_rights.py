"""A role that owns nothing runs every part with the rights that `migrate` gives; a DBA can run the same as a script."""

import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from surefoot import outbox
from surefoot.consumer import Consumer, Transaction
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.database.migrate import migrate, migration_sql
from surefoot.database.migration_sql import grants
from surefoot.errors import ConfigurationError
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.integration.test_migrations import shape
from tests.support.command_line import surefoot
from tests.support.event_types import ThingHappened, things_on
from tests.support.relay.processes import relay_running, spec, statuses
from tests.support.waiting import eventually


@pytest.fixture
async def role(empty_database_url: str) -> AsyncIterator[str]:
    """The URL of a role that owns nothing."""
    name, password = f"App {secrets.token_hex(4)}", secrets.token_hex(8)
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{password}'")
    parts = urlsplit(empty_database_url)
    yield parts._replace(netloc=f"{name.replace(' ', '%20')}:{password}@{parts.hostname}:{parts.port}").geturl()
    await connection.execute(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"')
    await connection.close()


def name_of(role: str) -> str:
    return str(urlsplit(role).username).replace("%20", " ")


async def test_a_role_that_owns_nothing_publishes_relays_and_consumes(
    empty_database_url: str, role: str, topic_name: str
) -> None:
    await migrate(empty_database_url, grant_to=name_of(role))
    log, handled = PostgresLog(role), []
    consumer = Consumer("rights")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        handled.append(event.data.number)

    connection = await asyncpg.connect(role)
    with things_on(topic_name):
        await log.create([spec(topic_name), spec(f"{topic_name}.dlq")])
        async with outbox.transaction(connection) as tx:
            tx.add(ThingHappened(thing_id="t1", number=1))
        async with relay_running(role, log):
            await eventually(lambda: _is_published(connection), what="the event is published")
        await ConsumerRuntime(consumer, role, log, ConsumerSettings(), once=True).run()
    assert handled == [1]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("UPDATE surefoot.schema_version SET version_num = '0001'")
    await connection.close()
    await log.close()


async def test_without_the_rights_the_same_role_is_refused(empty_database_url: str, role: str) -> None:
    await migrate(empty_database_url)
    connection = await asyncpg.connect(role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("SELECT * FROM surefoot.outbox_events")
    await connection.close()


async def test_rights_for_a_role_that_does_not_exist_are_refused_and_nothing_is_migrated(
    empty_database_url: str,
) -> None:
    with pytest.raises(ConfigurationError, match=r"has no role 'nobody'.*CREATE ROLE"):
        await migrate(empty_database_url, grant_to="nobody")
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT to_regnamespace('surefoot')") is None
    await connection.close()


async def test_the_script_makes_the_same_tables_as_migrate_and_is_empty_handed_afterwards(
    empty_database_url: str, role: str
) -> None:
    await migrate(empty_database_url, schema="migrated", shards=4)
    script = await migration_sql(empty_database_url, schema="scripted", shards=4, grant_to=name_of(role))
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(script)
    assert await shape(empty_database_url, "scripted") == await shape(empty_database_url, "migrated")
    versions = "SELECT to_jsonb(v) FROM {}.schema_version v"
    assert await connection.fetch(versions.format("scripted")) == await connection.fetch(versions.format("migrated"))

    again = await migration_sql(empty_database_url, schema="scripted")

    assert "CREATE TABLE" not in again
    await connection.execute(again)
    await migrate(empty_database_url, schema="scripted")
    assert await shape(empty_database_url, "scripted") == await shape(empty_database_url, "migrated")
    await connection.close()


async def test_the_command_prints_the_script_and_changes_nothing(empty_database_url: str) -> None:
    done = await surefoot("migrate", "--sql", "--grant-to", 'a "b"', "--database", empty_database_url)
    assert done.code == 0, done.err
    assert all(f"{one};" in done.out for one in grants("surefoot", 'a "b"'))
    assert 'TO "a ""b"""' in done.out
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT to_regnamespace('surefoot')") is None
    await connection.close()


async def _is_published(connection: asyncpg.Connection) -> bool:
    return (await statuses(connection)).keys() == {"PUBLISHED"}

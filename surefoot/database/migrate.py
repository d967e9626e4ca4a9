"""Bring a database to what this version needs.

Our own schema, our own version table: a user's migrations never notice.
"""

from importlib.resources import files

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from surefoot.database import locks
from surefoot.database.connection import explain
from surefoot.database.engine import create_engine
from surefoot.database.migration_sql import grants, migration_script, oldest_program, quoted
from surefoot.database.schema import DEFAULT_SCHEMA, DEFAULT_SHARDS, checked_schema
from surefoot.database.version import newest_version, stored_version
from surefoot.errors import ConfigurationError


async def migrate(
    url: str, *, schema: str = DEFAULT_SCHEMA, shards: int = DEFAULT_SHARDS, grant_to: str | None = None
) -> str:
    """Migrate to the newest version and return it. Running it again changes nothing.

    `shards` counts only the first time: it decides which relay owns which key, so it stays as it is once there is
    data. `grant_to`: a role that gets the rights to run every part."""
    check_shards(shards)
    engine = create_engine(url, name="surefoot migrate")
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(_upgrade, checked_schema(schema), shards, grant_to)
    except (DBAPIError, OSError) as error:
        raise explain(_cause(error), url) from error
    finally:
        await engine.dispose()


async def migration_sql(
    url: str, *, schema: str = DEFAULT_SCHEMA, shards: int = DEFAULT_SHARDS, grant_to: str | None = None
) -> str:
    """What `migrate` would run on this database, as a script. It reads the version that the database is at."""
    check_shards(shards)
    stored = await stored_version(url, schema=schema)
    return migration_script(checked_schema(schema), shards, stored.version, grant_to)


def check_shards(shards: int) -> None:
    if not 1 <= shards <= 1024:
        raise ConfigurationError(f"--shards {shards} is out of range: choose 1 to 1024 (8 is right for most).")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("surefoot.database") / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: Connection, schema: str, shards: int, grant_to: str | None) -> str:
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": locks.MIGRATION})
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
    config = _config()
    config.attributes.update(connection=connection, schema=schema, shards=shards)
    command.upgrade(config, "head")
    for statement in oldest_program(schema):
        connection.exec_driver_sql(statement)
    if grant_to is not None:
        _grant(connection, schema, grant_to)
    return newest_version()


def _grant(connection: Connection, schema: str, role: str) -> None:
    if connection.scalar(text("SELECT count(*) FROM pg_roles WHERE rolname = :role"), {"role": role}) == 0:
        raise ConfigurationError(f"The database has no role {role!r}. Make it first: CREATE ROLE {quoted(role)} LOGIN")
    for statement in grants(schema, role):
        connection.exec_driver_sql(statement)


def _cause(error: BaseException) -> BaseException:
    """The driver's own error, under SQLAlchemy's wrapping."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error

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
from surefoot.database.schema import DEFAULT_SCHEMA, DEFAULT_SHARDS, checked_schema
from surefoot.database.version import OLDEST_PROGRAM, VERSION_TABLE, newest_version
from surefoot.errors import ConfigurationError


async def migrate(url: str, *, schema: str = DEFAULT_SCHEMA, shards: int = DEFAULT_SHARDS) -> str:
    """Migrate to the newest version and return it. Running it again changes nothing.

    `shards` counts only the first time: it decides which relay owns which key, so it stays as it is once there is
    data."""
    if not 1 <= shards <= 1024:
        raise ConfigurationError(f"--shards {shards} is out of range: choose 1 to 1024 (8 is right for most).")
    engine = create_engine(url, name="surefoot migrate")
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(_upgrade, checked_schema(schema), shards)
    except (DBAPIError, OSError) as error:
        raise explain(_cause(error), url) from error
    finally:
        await engine.dispose()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("surefoot.database") / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: Connection, schema: str, shards: int) -> str:
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": locks.MIGRATION})
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
    config = _config()
    config.attributes.update(connection=connection, schema=schema, shards=shards)
    command.upgrade(config, "head")
    table = f"{schema}.{VERSION_TABLE}"
    connection.execute(text(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS oldest_program text"))
    connection.execute(text(f"UPDATE {table} SET oldest_program = :oldest"), {"oldest": OLDEST_PROGRAM})
    return newest_version()


def _cause(error: BaseException) -> BaseException:
    """The driver's own error, under SQLAlchemy's wrapping."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error

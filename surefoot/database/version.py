"""The version of Surefoot's tables: the one a database is at, and the one this program needs.

Every process checks it when it starts. So it is read without Alembic and SQLAlchemy, which take long to load.
"""

from importlib.resources import files

from surefoot.database.connection import close_quietly, connect, explain, is_database_error, is_missing_table
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import DatabaseUnavailable

VERSION_TABLE = "schema_version"


async def current_version(url: str, *, schema: str = DEFAULT_SCHEMA) -> str | None:
    """The version the database is at; None if it was never migrated."""
    statement = f"SELECT version_num FROM {checked_schema(schema)}.{VERSION_TABLE}"
    try:
        connection = await connect(url, name="surefoot version")
    except DatabaseUnavailable as error:
        raise explain(error.__cause__ or error, url) from error
    try:
        version: str | None = await connection.fetchval(statement)
        return version
    except Exception as error:
        if is_missing_table(error):
            return None
        if is_database_error(error):
            raise explain(error, url) from error
        raise
    finally:
        await close_quietly(connection)


def newest_version() -> str:
    """The version this program needs: that of its last migration, which begins with its number."""
    migrations = files("surefoot.database") / "migrations" / "versions"
    return max(path.name.partition("_")[0] for path in migrations.iterdir() if path.name.endswith(".py"))

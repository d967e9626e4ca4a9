"""The version of Surefoot's tables: the one a database is at, and the programs that may run on it.

Migrations only expand: they add tables, columns with defaults, and indexes. So a program goes on running on tables that
are newer than itself, down to the oldest version that `surefoot migrate` stores with them. You migrate first, and then
replace the processes one by one.

Every process checks this when it starts. So it is read without Alembic and SQLAlchemy, which take long to load.
"""

from dataclasses import dataclass
from importlib.resources import files

from surefoot.database.connection import close_quietly, connect, explain, is_database_error, is_missing_table
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import DatabaseUnavailable

VERSION_TABLE = "schema_version"
OLDEST_PROGRAM = "0006"
"""Programs of this version may still run on the tables of the newest one. Raise it only with a migration that takes
something away from them."""


@dataclass(frozen=True, slots=True)
class TablesVersion:
    """What a database says of its tables."""

    version: str | None
    """None if it was never migrated."""
    oldest_program: str | None = None
    """The oldest version whose programs may run on them. None if a program stored it that knew no ranges."""

    def admits(self, program: str) -> bool:
        """Whether a program of this version may run on the tables."""
        if self.version is None or program > self.version:
            return False
        return program >= (self.oldest_program or self.version)


async def stored_version(url: str, *, schema: str = DEFAULT_SCHEMA) -> TablesVersion:
    # As JSON: the column is missing in tables that were migrated before there were ranges.
    statement = f"SELECT version_num, to_jsonb(v) ->> 'oldest_program' FROM {checked_schema(schema)}.{VERSION_TABLE} v"
    try:
        connection = await connect(url, name="surefoot version")
    except DatabaseUnavailable as error:
        raise explain(error.__cause__ or error, url) from error
    try:
        row = await connection.fetchrow(statement)
        return TablesVersion(None) if row is None else TablesVersion(row[0], row[1])
    except Exception as error:
        if is_missing_table(error):
            return TablesVersion(None)
        if is_database_error(error):
            raise explain(error, url) from error
        raise
    finally:
        await close_quietly(connection)


def misfit(tables: TablesVersion, program: str) -> tuple[str, str] | None:
    """What is wrong and what to do, where a program of this version may not run on the tables."""
    if tables.admits(program):
        return None
    if tables.version is None:
        return "has no Surefoot tables", "Run: surefoot migrate --database …"
    if program > tables.version:
        return f"is at version {tables.version}, this program needs {program}", "Run: surefoot migrate --database …"
    oldest = tables.oldest_program or tables.version
    return f"is at version {tables.version}, and takes programs from {oldest} on; this one is {program}", (
        "Update Surefoot here."
    )


def newest_version() -> str:
    """The version this program needs: that of its last migration, which begins with its number."""
    migrations = files("surefoot.database") / "migrations" / "versions"
    return max(path.name.partition("_")[0] for path in migrations.iterdir() if path.name.endswith(".py"))

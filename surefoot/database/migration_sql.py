"""The statements of a migration as text, for databases where another person runs them; and the rights of a role.

A program needs no table of its own: it runs as a role that owns nothing and has the rights below. `surefoot migrate
--grant-to ROLE` gives them, `--sql` prints everything instead of running it.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from textwrap import dedent
from typing import Any

from surefoot.database import locks
from surefoot.database.version import OLDEST_PROGRAM, VERSION_TABLE

_VERSIONS = "surefoot.database.migrations.versions"


def migration_script(schema: str, shards: int, since: str | None, grant_to: str | None) -> str:
    """One transaction for `psql`, from the version that a database is at (None: it has no tables) to the newest."""
    table = f"{schema}.{VERSION_TABLE}"
    statements = [f"SELECT pg_advisory_xact_lock({locks.MIGRATION})", f"CREATE SCHEMA IF NOT EXISTS {schema}"]
    if since is None:
        statements.append(f"CREATE TABLE {table} (version_num varchar(32) PRIMARY KEY)")
    newest = since
    for module in _migrations():
        if since is None or module.revision > since:
            statements += [dedent(one).strip().format(schema=schema, shards=shards) for one in module.STATEMENTS]
            newest = module.revision
    if newest != since:
        change = "INSERT INTO {} VALUES ('{}')" if since is None else "UPDATE {} SET version_num = '{}'"
        statements.append(change.format(table, newest))
    statements += oldest_program(schema)
    if grant_to is not None:
        statements += grants(schema, grant_to)
    return "\n\n".join(["BEGIN;", *(f"{one};" for one in statements), "COMMIT;"])


def oldest_program(schema: str) -> list[str]:
    """What stores the oldest version whose programs may run on the tables."""
    table = f"{schema}.{VERSION_TABLE}"
    return [
        f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS oldest_program text",
        f"UPDATE {table} SET oldest_program = '{OLDEST_PROGRAM}'",
    ]


def grants(schema: str, role: str) -> list[str]:
    """The rights of a role that runs every part: relay, consumers, sagas, dead letters, idempotent requests."""
    to = quoted(role)
    return [
        f"GRANT USAGE ON SCHEMA {schema} TO {to}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {to}",
        f"REVOKE INSERT, UPDATE, DELETE ON {schema}.{VERSION_TABLE} FROM {to}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {to}",
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {to}",
    ]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _migrations() -> Iterator[Any]:
    folder = files("surefoot.database") / "migrations" / "versions"
    for name in sorted(path.name for path in folder.iterdir() if path.name.endswith(".py")):
        yield import_module(f"{_VERSIONS}.{name.removesuffix('.py')}")

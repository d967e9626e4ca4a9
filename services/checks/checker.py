"""What the checkers share: a finding, and how they read books: several queries in one snapshot of a database."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from services.settings import SERVICES
from surefoot.database.address import shown_url
from surefoot.database.connection import Row, close_quietly, connect, explain, is_missing_table
from surefoot.errors import SchemaOutdated

Violation = TypeVar("Violation", bound=str)
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Finding(Generic[Violation]):
    """Which rule is broken, in a word of the checker's own, and how, in a sentence."""

    violation: Violation
    sentence: str


async def read(url: str, *queries: str) -> list[Rows]:
    """The rows of each query, or an error whose sentence says why there are none."""
    connection = await connect(url, name="surefoot services check")
    try:
        async with connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return [[_values(row) for row in await connection.fetch(query)] for query in queries]
    except Exception as error:
        if is_missing_table(error):
            raise SchemaOutdated(
                f"The database at {shown_url(url)} has no books to check ({error}). Run: surefoot services tables "
                f"--database …; or, where a service has a database of its own, say so in the environment "
                f"(SUREFOOT_{SERVICES[0].upper()}_DATABASE, …)."
            ) from error
        raise explain(error, url) from error
    finally:
        await close_quietly(connection)


def _values(row: Row) -> tuple[Any, ...]:
    return tuple(row[position] for position in range(len(row)))

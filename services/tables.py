"""The tables of the reference services: `await create_tables(url, service)` makes those of one service.

    await create_tables("postgresql://…", "warehouse")

A service keeps its tables in a Postgres schema of its own, declared beside its statements as a `metadata` with that
schema (`MetaData(schema="warehouse")`). They live beside Surefoot's own tables and beside those of other
services, or in a database of their own; `surefoot migrate` must have run there as well, for inbox and outbox. Making
them again changes nothing, and two processes that start at once take turns.
"""

from collections.abc import Mapping
from importlib import import_module

from sqlalchemy import Connection, MetaData, text
from sqlalchemy.exc import DBAPIError

from services.settings import Service
from surefoot.database.connection import explain
from surefoot.database.engine import create_engine
from surefoot.database.schema import checked_schema
from surefoot.errors import ConfigurationError

DECLARED: Mapping[Service, str] = {
    "checkout": "services.checkout.sessions",
    "order": "services.order.orders",
    "payment": "services.payment.tables",
    "provider": "services.provider.ledger",
    "ledger": "services.ledger.tables",
    "warehouse": "services.warehouse.statements",
    "shipping": "services.shipping",
    "returns": "services.returns.requests",
    "notification": "services.notification",
    "flow": "services.flow",
}
"""The module with each service's `metadata`, loaded when its tables are made."""
_LOCK = 1937076840  # one creation at a time, whoever starts it: CREATE … IF NOT EXISTS alone fails in a race


async def create_tables(url: str, service: Service) -> None:
    """Create the service's schema and tables, as far as they are not there yet."""
    engine = create_engine(url, name="surefoot services")
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_create, tables_of(service))
    except (DBAPIError, OSError) as error:
        raise explain(_cause(error), url) from error
    finally:
        await engine.dispose()


def tables_of(service: Service) -> MetaData:
    metadata = import_module(DECLARED[service]).metadata
    if not isinstance(metadata, MetaData) or metadata.schema is None:
        raise ConfigurationError(f"{DECLARED[service]} needs a `metadata` with a schema of its own.")
    return metadata


def _create(connection: Connection, metadata: MetaData) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {checked_schema(str(metadata.schema))}"))
    metadata.create_all(connection)


def _cause(error: BaseException) -> BaseException:
    """The driver's own error, under SQLAlchemy's wrapping."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error

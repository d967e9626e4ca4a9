"""What the tests run on: one real PostgreSQL and one real Kafka for the whole run, a fresh database for each test.

A broker or server that cannot be had fails the tests that need it: a test that skips itself proves nothing.
"""

import asyncio
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from tests.support.postgres_servers import postgres

# Without fsync a commit is lost if the machine loses its power, and only then: no test does that, and each commit of
# each test would wait for the disk. Servers that tests crash have it on, and so has this one at full size.
FSYNC = "on" if os.environ.get("SUREFOOT_SOAK") else "off"
POSTGRES_OPTIONS = {"track_commit_timestamp": "on", "max_connections": "200", "fsync": FSYNC}
TEMPLATE = "surefoot_template"
# How long an example takes depends on what else the machine does: no test may fail for it.
settings.register_profile("surefoot", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("surefoot")

pytest_plugins = [
    "tests.support.targets",
    "tests.support.accounting",
    "tests.support.run_guard",
    "tests.support.shared_broker",
    "tests.support.drills",
    "tests.support.evidence.plugin",
]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    with postgres(**POSTGRES_OPTIONS) as server:
        yield server


@pytest.fixture(scope="session")
def _template(postgres_server: EmbeddedPostgres) -> str:
    """A migrated database to copy from: a copy takes a tenth of a migration's time."""
    _execute(postgres_server, f"CREATE DATABASE {TEMPLATE}")
    _migrate(_url(postgres_server, TEMPLATE))
    return TEMPLATE


@pytest.fixture
def database_url(postgres_server: EmbeddedPostgres, _template: str) -> Iterator[str]:
    """A migrated database of this test's own."""
    with _database(postgres_server, template=_template) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """A database of this test's own with nothing in it."""
    with _database(postgres_server, template="template1") as url:
        yield url


@pytest.fixture
def topic_name() -> str:
    """A name no other test uses: the broker is shared."""
    return f"test.{uuid.uuid4().hex[:12]}"


def _migrate(url: str) -> None:
    # In a thread of its own: a fixture may be asked for from within a test's event loop.
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, migrate(url)).result()


@contextmanager
def _database(server: EmbeddedPostgres, *, template: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:16]}"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield _url(server, name)
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement)


def _url(server: EmbeddedPostgres, database: str) -> str:
    return server.url.removesuffix("/postgres") + f"/{database}"

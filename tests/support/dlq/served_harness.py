"""The dead-letter service as people run it: `surefoot dlq serve`, a relay and a consumer, each a process of its own on
the Postgres log; and `surefoot …` as a person at a terminal gives it.

An order dies if there is a quote for it already, and can be replayed once that is taken away; an order to the country
XX can only be edited or discarded.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy import create_engine, text

from schemas import catalogue
from schemas.order import PlacementRequested
from schemas.parts import Address, Line
from services.demo.labels import metadata
from surefoot.audit.access import Tokens
from surefoot.audit.people import Role
from surefoot.cli.process import event_log
from surefoot.cli.topics import declared
from surefoot.database.address import sqlalchemy_url
from surefoot.database.connection import connect
from surefoot.events import EventData, Money
from tests.support import processes
from tests.support.consumer.processes import publish
from tests.support.ports import free_port
from tests.support.processes import Child, Done
from tests.support.waiting import wait_until

HANDLERS = "services.demo.labels:labels"
WITHIN_S = 40
QUICK = {
    "SUREFOOT_RELAY_LEASE": "PT2S",
    "SUREFOOT_RELAY_HEARTBEAT": "PT0.4S",
    "SUREFOOT_RELAY_LOCK_TIMEOUT": "PT1S",
    "SUREFOOT_LOG_LEASE": "PT2S",
    "SUREFOOT_KAFKA_SESSION_TIMEOUT": "PT2S",
    "SUREFOOT_DLQ_RESEND_AFTER": "PT2S",
    "SUREFOOT_DLQ_REQUESTS_PER_SECOND": "1000",
    "SUREFOOT_DLQ_REQUESTS_AT_ONCE": "1000",
    "SUREFOOT_DLQ_JOBS_PER_PERSON": "100",
    "SUREFOOT_DLQ_TICK": "PT0.02S",
}


@dataclass
class Ground:
    url: str
    port: int
    directory: Path
    kafka: str | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, person: str) -> dict[str, str]:
        return {
            **os.environ,
            **QUICK,
            "SUREFOOT_DATABASE": self.url,
            "SUREFOOT_DLQ_URL": self.address,
            "SUREFOOT_DLQ_TOKEN": self.tokens.get(person, ""),
            "PYTHONWARNINGS": "error",
            **({"SUREFOOT_KAFKA": self.kafka} if self.kafka else {}),
            "NO_COLOR": "1",
        }

    def start(self, name: str, *arguments: str) -> Child:
        with (self.directory / f"{name}.log").open("ab") as log:
            return processes.start(["surefoot", *arguments], environment=self.environment(""), stdout=log, stderr=log)

    def run(self, *arguments: str, person: str = "ana", **environment: str) -> Done:
        """Give a command as a process of its own."""
        given = {**self.environment(person), **environment}
        return processes.run(["surefoot", *arguments], environment=given, directory=self.directory)

    def wait_until_served(self) -> None:
        def answers() -> bool:
            try:
                return httpx.get(f"{self.address}/admin/dlq/healthz", trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(answers, what="the service answers", within_s=WITHIN_S)

    def wait_for(self, question: str, *values: object) -> None:
        """Until this question has a true answer in the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:

            def holds() -> bool:
                found = connection.execute(question.encode(), values).fetchone()
                return found is not None and bool(found[0])

            wait_until(holds, what=question, within_s=WITHIN_S)

    def value(self, question: str, *values: object) -> object:
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(question.encode(), values).fetchone()
        return None if found is None else found[0]

    def execute(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def place(self, *data: EventData) -> None:
        async def put() -> None:
            async with event_log(self.kafka, self.url, "surefoot") as log:
                await publish(log, *data)

        asyncio.run(put())

    def dead(self, *order_ids: str, country: str = "DE") -> list[str]:
        """Let these orders die; the ids of their letters, in order."""
        if country != "XX":
            for order_id in order_ids:
                self.execute("INSERT INTO labels.quotes VALUES (%s, 1)", order_id)
        self.place(*(order(order_id, country) for order_id in order_ids))
        question = "SELECT count(*) = %s FROM surefoot.dlq_events WHERE key = ANY (%s) AND status = 'OPEN'"
        self.wait_for(question, len(order_ids), list(order_ids))
        return [str(self.value("SELECT id FROM surefoot.dlq_events WHERE key = %s", one)) for one in order_ids]

    def mend(self, *order_ids: str) -> None:
        self.execute("DELETE FROM labels.quotes WHERE order_id = ANY (%s)", list(order_ids))

    def status(self, letter_id: str) -> object:
        return self.value("SELECT status::text FROM surefoot.dlq_events WHERE id = %s::uuid", letter_id)


@contextmanager
def ground_at(url: str, directory: Path, kafka: str | None = None) -> Iterator[Ground]:
    """Tables, topics and people; nothing runs yet."""
    engine = create_engine(sqlalchemy_url(url, "psycopg"))
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA labels"))
        metadata.create_all(connection)
    engine.dispose()

    async def create_topics() -> None:
        async with event_log(kafka, url, "surefoot") as log:
            await log.create(declared(catalogue))

    asyncio.run(create_topics())
    ground = Ground(url, free_port(), directory, kafka)
    ground.tokens.update(asyncio.run(_tokens(url)))
    yield ground


async def _tokens(url: str) -> dict[str, str]:
    people: dict[str, Role] = {"vera": "VIEWER", "olga": "OPERATOR", "ana": "ADMIN", "ben": "SUPER_ADMIN"}
    connection = await connect(url, name="test")
    try:
        async with connection.transaction():
            tokens = Tokens(connection, "surefoot")
            return {
                person: (await tokens.create(person, role, lifetime=timedelta(days=1), by="test")).token
                for person, role in people.items()
            }
    finally:
        await connection.close()


@contextmanager
def running(ground: Ground, parts: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, Child]]:
    """Processes by name; stopped at the end, each by its own id."""
    started = {name: ground.start(name, *arguments) for name, arguments in parts.items()}
    try:
        yield started
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(timeout=30)


def all_parts(ground: Ground) -> dict[str, tuple[str, ...]]:
    return {
        "relay": ("relay",),
        "labels": ("consume", HANDLERS),
        "dlq": ("dlq", "serve", "--port", str(ground.port)),
    }


def order(order_id: str, country: str = "DE") -> PlacementRequested:
    price = Money.minor(1999, "EUR")
    return PlacementRequested(
        order_id=order_id,
        customer_id="customer-1",
        checkout_session_id=f"session-{order_id}",
        mode="choreographed",
        lines=(Line(sku="sku-1", quantity=1, unit_price=price),),
        total=price,
        ship_to=Address(name="Ada Buyer", street="1 Main Street", city="Bern", postal_code="3000", country=country),
    )


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Given":
    return Given(monkeypatch, capsys)


class Given:
    """Commands given within the test's own process, which is quicker: what `surefoot` does, its exit code and words."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, ground: Ground, *arguments: str, person: str = "ana", **environment: str) -> Done:
        from surefoot.cli.main import main

        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["surefoot", *arguments])
            patched.chdir(ground.directory)
            for name, value in {**ground.environment(person), **environment}.items():
                patched.setenv(name, value)
            self._capsys.readouterr()
            try:
                main()
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)

"""What the crash tests of the dead-letter service stand on: a consumer whose events die, a relay, services that are
killed, two people with tokens, and what the checkers want to know.
"""

import re
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from surefoot.audit.access import Tokens
from surefoot.audit.people import Role
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.settings import DlqSettings
from surefoot.log.port import EventLog
from tests.support.checkers.consumer import Effect
from tests.support.checkers.dlq import Finding, ItemRow, JobRow, Letter, check_dead_letters
from tests.support.consumer.crash_app import ATTEMPTS, WHEN_DEAD
from tests.support.consumer.crash_harness import FAULTY, SCHEMA, Ground
from tests.support.consumer.processes import create_topics
from tests.support.event_types import told
from tests.support.processes import end
from tests.support.relay.processes import RelayProcess, as_environment, relay_running, start_process
from tests.support.waiting import LONG_ENOUGH_S, eventually

QUICK = {
    "look_for_topics": timedelta(milliseconds=500),
    "tick": timedelta(milliseconds=50),
    "resend_after": timedelta(seconds=2),
    "housekeeping": timedelta(seconds=1),
}
DIES_AT_ONCE = {**FAULTY, ATTEMPTS: "1", WHEN_DEAD: "release"}
"""For the consumer: one attempt, and its keys go on, so that each event of a key dies by itself."""
EVERYTHING = {"filter": {"status": "OPEN"}}
WHY = "it is mended"
_AT = re.compile(r"Dead letters are at (http://\S+)/admin/dlq")


@dataclass
class DlqGround:
    consumers: Ground
    """The consumer's side: its topic, its table of effects, its processes."""
    tokens: Mapping[str, str]
    services: list[RelayProcess] = field(default_factory=list)
    where: str = ""
    """Where the latest service is served."""

    @property
    def connection(self) -> asyncpg.Connection:
        return self.consumers.connection

    # -- processes ---------------------------------------------------------------------------------------------------

    async def serve(self, *, failpoints: str = "", weakened: str = "", **settings: str) -> RelayProcess:
        """Start a service, and wait until it answers. `settings` as in SUREFOOT_DLQ_…, in lower case."""
        module = ["tests.support.weakened", "dlq", weakened] if weakened else ["surefoot"]
        kafka = ["--kafka", self.consumers.kafka] if self.consumers.kafka else []
        log = self.consumers.directory / f"dlq-{len(self.services)}.log"
        environment = {
            **as_environment("SUREFOOT_DLQ", QUICK),
            **{f"SUREFOOT_DLQ_{name.upper()}": value for name, value in settings.items()},
            "SUREFOOT_KAFKA_SESSION_TIMEOUT": "PT2S",
            "SUREFOOT_LOG_LEASE": "PT2S",
            "SUREFOOT_FAILPOINTS": failpoints,
        }
        command = [*module, "dlq", "serve", "--port", "0", "--database", self.consumers.url, *kafka]
        service = await start_process(command, log, environment)
        self.services.append(service)
        self.where = await eventually(lambda: self._address(service), what="the service answers")
        return service

    async def _address(self, service: RelayProcess) -> str:
        said = _AT.search(service.log.read_text())
        assert service.process.returncode is None, service.log.read_text()
        return said[1] if said else ""

    async def turn_to(self, service: RelayProcess) -> None:
        """From now on, people ask this one."""
        self.where = await self._address(service)

    async def kill(self, service: RelayProcess) -> None:
        service.signal(signal.SIGKILL)
        assert await service.ended() == -signal.SIGKILL

    async def end(self, service: RelayProcess) -> None:
        service.signal(signal.SIGTERM)
        assert await service.ended() == 0, service.log.read_text()

    async def consume(self) -> RelayProcess:
        return await self.consumers.start(**DIES_AT_ONCE)

    # -- people ------------------------------------------------------------------------------------------------------

    async def post(self, person: str, path: str, body: object, key: str) -> httpx.Response:
        """A request of this person to the latest service, under this Idempotency-Key."""
        headers = {"Authorization": f"Bearer {self.tokens[person]}", "Idempotency-Key": key}
        async with httpx.AsyncClient(
            base_url=self.where + "/admin/dlq", timeout=2 * LONG_ENOUGH_S, trust_env=False
        ) as client:
            return await client.post(path, json=body, headers=headers)

    async def ask(self, person: str, path: str, body: object, key: str | None = None) -> dict[str, Any]:
        """The same, where it succeeds; what was answered."""
        response = await self.post(person, path, body, key or str(uuid.uuid4()))
        assert response.is_success, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def ask_until_done(self, person: str, path: str, body: object, key: str) -> dict[str, Any]:
        """The same, of a client that asks again while another service has the request in hand."""

        async def answered() -> dict[str, Any] | None:
            response = await self.post(person, path, body, key)
            if response.status_code == HTTPStatus.CONFLICT and "Retry-After" in response.headers:
                return None
            assert response.is_success, response.text
            answer: dict[str, Any] = response.json()
            return answer

        answer = await eventually(answered, what="the request is answered")
        assert answer is not None
        return answer

    async def ask_and_be_cut_off(self, person: str, path: str, body: object, key: str) -> None:
        """A request whose service is killed on the way, or soon after it has answered."""
        try:
            await self.ask(person, path, body, key)
        except httpx.TransportError:
            return

    async def replay(self, **how: Any) -> str:
        return str((await self.ask("ada", "/replay", {**EVERYTHING, "reason": WHY, **how}))["job_id"])

    async def discard(self, asked: Mapping[str, object] = EVERYTHING) -> str:
        """Asked for by one, approved by the other; the job that carries it out."""
        wanted = await self.ask("ada", "/discard", {**asked, "reason": "they are of no use any more"})
        approved = {"set_hash": wanted["set_hash"], "reason": "I have looked at them"}
        return str((await self.ask("grace", f"/approvals/{wanted['id']}/approve", approved))["job_id"])

    # -- events ------------------------------------------------------------------------------------------------------

    async def die(self, count: int, keys: int) -> None:
        """So many events of so many keys, each of which is dead and has its letter taken in. A service has to run."""
        events = [self.consumers.event(f"key-{number % keys}", number) for number in range(count)]
        await self.connection.executemany(
            "INSERT INTO faults VALUES ($1, $2)", [(event.key, self.consumers.numbers[event.id]) for event in events]
        )
        await self.consumers.publish(events)
        await self.there_are(count, "status = 'OPEN'", within_s=LONG_ENOUGH_S + count / 20)

    async def there_are(self, many: int, condition: str, within_s: float = LONG_ENOUGH_S) -> None:
        async def look() -> bool:
            found = await self.connection.fetchval(f"SELECT count(*) FROM surefoot.dlq_events WHERE {condition}")
            return bool(found == many)

        try:
            await eventually(look, what=f"{many} letters where {condition}", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.told()}") from late

    async def answered(self, job_id: str) -> int:
        counted = "SELECT count(*) FROM surefoot.dlq_job_items WHERE job_id = $1::uuid AND state = 'ANSWERED'"
        return int(await self.connection.fetchval(counted, job_id))

    async def has_answers(self, job_id: str, many: int, within_s: float = LONG_ENOUGH_S) -> None:
        async def look() -> bool:
            return await self.answered(job_id) >= many

        try:
            await eventually(look, what=f"{many} answers", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.told()}") from late

    async def ended(self, job_id: str, within_s: float = LONG_ENOUGH_S) -> str:
        async def look() -> str | None:
            status: str | None = await self.connection.fetchval(
                "SELECT status::text FROM surefoot.dlq_jobs WHERE id = $1::uuid AND ended_at IS NOT NULL", job_id
            )
            return status

        try:
            status = await eventually(look, what="the job has ended", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.told()}") from late
        assert status is not None
        return status

    async def statuses(self) -> dict[str, int]:
        rows = await self.connection.fetch("SELECT status::text, count(*) FROM surefoot.dlq_events GROUP BY 1")
        return {row[0]: row[1] for row in rows}

    # -- what became of them -----------------------------------------------------------------------------------------

    async def findings(self) -> list[Finding]:
        connection = self.connection
        letters = await connection.fetch(
            "SELECT event_id, key, partition, log_offset, status::text FROM surefoot.dlq_events"
        )
        effects = await connection.fetch("SELECT event_id, key, n FROM effects")
        items = await connection.fetch(
            """SELECT i.job_id::text, i.number, e.event_id, i.state::text, i.answer
               FROM surefoot.dlq_job_items i JOIN surefoot.dlq_events e ON e.id = i.dlq_id"""
        )
        return check_dead_letters(
            list(self.consumers.numbers),
            [Letter(*row) for row in letters],
            [Effect(*row) for row in effects],
            await self._jobs(),
            [ItemRow(*row) for row in items],
        )

    async def jobs_and_acts(self, action: str) -> tuple[int, int]:
        """How many jobs there are, and how often the audit log has this act as done."""
        counted = "SELECT count(*) FROM surefoot.audit_log WHERE action = $1 AND outcome = 'done'"
        jobs = await self.connection.fetchval("SELECT count(*) FROM surefoot.dlq_jobs")
        return int(jobs), int(await self.connection.fetchval(counted, action))

    async def violations(self) -> set[str]:
        return {finding.violation for finding in await self.findings()}

    async def _jobs(self) -> list[JobRow]:
        """As the service shows them."""
        reading = Jobs(self.connection, "surefoot", DlqSettings())
        views = [await reading.get(str(line.id)) for line in (await reading.page(None, 1000)).jobs]
        return [JobRow(str(v.id), v.status, v.total, v.ok, v.failed, v.cancelled) for v in views]

    async def told(self) -> str:
        """How everything stands, for whoever has to find out why it does not end."""
        items = await self.connection.fetch(
            "SELECT state::text, answer, sends, count(*) FROM surefoot.dlq_job_items GROUP BY 1, 2, 3"
        )
        logs = [f"--- {one.log.name} ({one.pid})\n{one.log.read_text()[-3000:]}" for one in self.services]
        parts = [f"letters {await self.statuses()}", *map(str, await self._jobs()), *map(str, items)]
        return "\n".join([*parts, f"parked {await self.consumers.parked()}", *logs, self.consumers.logs()])


@asynccontextmanager
async def laid(url: str, log: EventLog, kafka: str | None, topic: str, directory: Path) -> AsyncIterator[DlqGround]:
    connection = await asyncpg.connect(url)
    await connection.execute(SCHEMA)
    await connection.execute("CREATE INDEX ON faults (key, number)")
    await create_topics(log, topic, "dlq.outcomes", "saga.replies", told.name)
    tokens = {person: await _token(connection, person, role) for person, role in PEOPLE.items()}
    ground = DlqGround(Ground(url, connection, log, kafka, topic, directory), tokens)
    try:
        async with relay_running(url, log):
            yield ground
    finally:
        await end(*(one.process for one in (*ground.services, *ground.consumers.started)))
        await connection.close()
        await log.close()


PEOPLE: Mapping[str, Role] = {"ada": "OPERATOR", "grace": "SUPER_ADMIN"}


async def _token(connection: asyncpg.Connection, person: str, role: Role) -> str:
    async with connection.transaction():
        made = await Tokens(connection, "surefoot").create(person, role, lifetime=timedelta(days=1), by="the tests")
    return made.token

"""What the tests of the sender stand on: letters of a topic, jobs over them, ticks, and what lies in the topic then."""

import json
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from surefoot.dlq.jobs.sender import Sender
from surefoot.errors import LogUnavailable
from surefoot.failpoints import FailpointError
from surefoot.log.port import Publisher, PublishOutcome, Record, TopicPartition, TopicSpec
from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq import letter_rows as letters
from tests.support.dlq.decisions import ADA, WHY, answer, dead, items, jobs, these
from tests.support.dlq.service import quick
from tests.support.relay.processes import read_all

NOT_SOON = "PT600S"
"""When what was sent is sent again: a test says when it is due (`long_ago`), not the time that passes."""


@dataclass
class SendingGround:
    url: str
    connection: asyncpg.Connection
    log: PostgresLog
    topic: str

    async def dead(self, count: int, **changed: Any) -> list[str]:
        return await dead(self.connection, count, **{"topic": self.topic, **changed})

    async def replay(self, count: int, keys: int = 1000, **how: Any) -> str:
        """A job over so many letters of so many keys, in the order of their numbers."""
        rows = [letters.letter(n, topic=self.topic, key=f"key-{n % keys}") for n in range(1, count + 1)]
        await letters.insert(self.connection, rows)
        async with jobs(self.connection) as verbs:
            made = await verbs.replay(ADA, these([str(row["id"]) for row in rows]), **{"reason": WHY, **how})
        return str(made.job_id)

    def sender(self, log: Any = None, **changes: object) -> Sender:
        return Sender(self.url, log or self.log, quick(**{"resend_after": NOT_SOON, **changes}))

    async def look(self, times: int = 1, **changes: object) -> None:
        """What a service does in so many ticks."""
        sender = self.sender(**changes)
        try:
            for _ in range(times):
                await sender.look()
        finally:
            sender.stop()
            await sender.run()  # closes what it has open

    async def sent(self) -> list[dict[str, Any]]:
        """The control records in the topic, in order; the id under `id`."""
        records = sorted(await read_all(self.log, self.topic), key=lambda record: (record.partition, record.offset))
        return [{**json.loads(record.value or b""), "id": _id(record.headers)} for record in records]

    async def sent_events(self) -> list[str]:
        return [control["event_id"] for control in await self.sent()]

    async def states(self, job_id: str) -> list[str]:
        return [one[2] for one in await items(self.connection, job_id)]

    async def job(self, job_id: str) -> tuple[str, str | None]:
        row = await self.connection.fetchrow("SELECT status::text, note FROM surefoot.dlq_jobs WHERE id = $1", job_id)
        assert row is not None
        return row[0], row[1]

    async def answer(self, job_id: str, *numbers: int, said: str = "done") -> None:
        for number in numbers:
            await answer(self.connection, job_id, number, said)

    async def long_ago(self) -> None:
        """Everything that was sent was sent long ago."""
        await self.connection.execute("UPDATE surefoot.dlq_job_items SET sent_at = sent_at - interval '1 day'")


def _id(headers: Any) -> str:
    return str(dict(headers)["ce_id"], "utf-8")


async def die_at(ground: SendingGround, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """A look that ends at this point, as if the process were killed there."""

    async def strike(name: str) -> None:
        if name == point:
            raise FailpointError(name)

    with monkeypatch.context() as armed:
        armed.setattr("surefoot.dlq.jobs.sender.failpoint", strike)
        with pytest.raises(FailpointError):
            await ground.look()


class Away:
    """A log that is opened and then takes nothing."""

    async def publisher(self) -> Publisher:
        return self

    async def topic(self, name: str) -> TopicSpec | None:
        raise LogUnavailable

    async def publish(self, where: TopicPartition, records: object) -> PublishOutcome:
        assert isinstance(records, list)
        assert all(isinstance(record, Record) for record in records)
        raise LogUnavailable

    async def close(self) -> None:
        return None


class Unopened(Away):
    async def publisher(self) -> Publisher:
        raise LogUnavailable

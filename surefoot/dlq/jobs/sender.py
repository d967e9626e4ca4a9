"""Sending control records: every service process looks at the jobs under way, and whoever has one in hand goes on with
it.

What is sent is marked first, in a transaction that commits before anything leaves: killed in between, the record is
sent later, under the same id; killed behind it, it is sent twice, and the consumer drops the repeat. A job moves on by
answers alone.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import structlog

from surefoot.database.connection import Connection
from surefoot.dlq.jobs.controls import CannotBeTold, control_of
from surefoot.dlq.jobs.turn import Batch, Rests, Turns
from surefoot.dlq.metrics import CONTROLS, HEARTBEAT
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.subscriber import Part
from surefoot.errors import LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import EventLog, Publisher, Record, Refused, TopicPartition

log = structlog.get_logger("surefoot.dlq")
GONE = "The dead letter is no longer kept here, so nobody knows whom to tell."


class Sent(NamedTuple):
    """How it went with the records of one partition."""

    refused: list[tuple[int, str]]
    """Numbers of items whose records the log will never take, and why."""
    unsent: list[int]
    away: LogUnavailable | None


class Sender(Part):
    def __init__(self, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        super().__init__("sender", url, event_log, settings)
        self.turns = Turns(settings)
        # Counting all items of a large job takes a while: it is done when the job looks other than when it rested.
        self._resting: dict[str, tuple[str, int]] = {}
        self._publisher: Publisher | None = None

    async def round(self) -> timedelta:
        await self.look()
        self.database_away.over()
        HEARTBEAT.labels(self.name).set_to_current_time()
        return self.settings.tick

    async def close(self) -> None:
        await super().close()
        if self._publisher is not None:
            await self._publisher.close()

    async def look(self) -> None:
        """Go on with each job under way that nobody else has in hand. Where the log is away for one, the others have
        their turn all the same: theirs may be other partitions."""
        connection = await self.connected()
        under_way = await self.turns.under_way(connection)
        if under_way and self._publisher is None:  # before anything is marked as sent
            self._publisher = await self.event_log.publisher()
        away: LogUnavailable | None = None
        resting: dict[str, tuple[str, int]] = {}
        for row in under_way:
            job_id, seen = row["id"], (row["status"], row["sent"])
            if not row["restless"] and self._resting.get(job_id) == seen:
                resting[job_id] = seen
                continue
            turn = await self.turns.take(connection, job_id)
            if isinstance(turn, Rests):
                resting[job_id] = seen
            elif turn is not None:
                await failpoint("dlq.sender.marked")
                away = await self._send(connection, turn) or away
                await failpoint("dlq.sender.published")
        self._resting = resting
        if away is not None:
            raise away

    async def _send(self, connection: Connection, batch: Batch) -> LogUnavailable | None:
        assert self._publisher is not None
        places: dict[TopicPartition, list[tuple[int, Record]]] = {}
        refused = [(number, GONE) for number in batch.gone]
        for item in batch.items:
            try:
                where, record = control_of(item)
            except CannotBeTold as error:
                refused.append((item.number, str(error)))
            else:
                places.setdefault(where, []).append((item.number, record))
        ends = await asyncio.gather(*(_publish(self._publisher, where, records) for where, records in places.items()))
        refused += [one for sent in ends for one in sent.refused]
        unsent = [number for sent in ends for number in sent.unsent]
        if refused:
            # Their topic is gone, or they are too large: no consumer will ever answer.
            log.warning("the log takes no control record for some dead letters", job=batch.job_id, count=len(refused))
            await self.turns.refuse(connection, batch.job_id, refused)
        for item in batch.items:
            CONTROLS.labels(item.action).inc()
        away = next((sent.away for sent in ends if sent.away is not None), None)
        if away is None:
            self.log_away.over()
        else:
            await self.turns.unmark(connection, batch.job_id, unsent)
        return away


async def _publish(publisher: Publisher, where: TopicPartition, records: Sequence[tuple[int, Record]]) -> Sent:
    """In order; one that the log refuses is passed by, since it concerns nobody else."""
    left = list(records)
    refused: list[tuple[int, str]] = []
    while left:
        try:
            outcome = await publisher.publish(where, [record for _, record in left])
        except LogUnavailable as error:
            return Sent(refused, [number for number, _ in left], error)
        if not isinstance(outcome, Refused):
            break
        refused.append((left[outcome.index][0], outcome.sentence))
        left = left[outcome.index + 1 :]
    return Sent(refused, [], None)

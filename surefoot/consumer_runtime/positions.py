"""Taking a partition: whoever had it before is shut out, and work goes on where the database says it stopped.

A gap (the log no longer has what comes next) is never jumped over in silence: it stops the consumer with a sentence.
"""

import re
from dataclasses import dataclass
from typing import Literal

from surefoot.consumer_runtime.unit import Database, Position, lock_name
from surefoot.errors import ConfigurationError, SurefootError
from surefoot.log.port import EventLog, TopicPartition

_PLACE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)/(?P<partition>\d{1,9}):(?P<offset>\d{1,18})")


class PositionLost(SurefootError):
    """The log does not have what this consumer has to read next."""


@dataclass(frozen=True, slots=True)
class From:
    """Where a command line says to begin: everywhere at the start or the end, or at one offset of one partition."""

    everywhere: Literal["start", "end"] | None = None
    where: TopicPartition | None = None
    offset: int = 0


def parse_from(text: str) -> From:
    if text == "start":
        return From("start")
    if text == "end":
        return From("end")
    place = parse_place(text)
    if place is None:
        raise ConfigurationError(
            f"--from {text!r} is neither start, nor end, nor a place such as order.events/3:1200 (topic, partition, "
            "offset)."
        )
    return From(where=place[0], offset=place[1])


def parse_place(text: str) -> tuple[TopicPartition, int] | None:
    """TOPIC/PARTITION:OFFSET, if the text is of that form."""
    matched = _PLACE.fullmatch(text)
    if matched is None:
        return None
    return TopicPartition(matched["topic"], int(matched["partition"])), int(matched["offset"])


class Positions:
    def __init__(self, consumer: str, member: str, database: Database, log: EventLog, begin: From | None) -> None:
        self._consumer = consumer
        self._member = member
        self._database = database
        self._log = log
        self._begin = begin
        self._begun: set[TopicPartition] = set()

    async def take(self, where: TopicPartition) -> tuple[Position, int]:
        """Raise the fence; our position there, and the offset to go on from."""
        position = Position(self._consumer, where, 0)
        sql = self._database.sql
        async with self._database.driver() as driver:
            await driver.fetchval(sql.end_others, lock_name(position))
            row = await driver.fetchrow(sql.take, *position.place, self._member)
        assert row is not None
        position.fence, stored = row[0], row[1]
        first = (await self._log.first_offsets(where.topic)).get(where, 0)
        end = (await self._log.end_offsets(where.topic)).get(where, 0)
        begin = self._wanted(where, stored, first, end)
        if begin is None and stored is None:
            # Not where the log's group has got to: what this database has not handled, it has not handled. It is
            # stored, so that whoever asks how far we are sees that nothing is left of a partition that was emptied
            # before, and so that a gap from here on is one.
            begin = first
        if begin is not None:
            async with self._database.driver() as driver:
                await driver.fetchval(sql.move, *position.place, position.fence, begin)
            return position, begin
        if stored < first:
            raise gap(self._consumer, where, stored, first)
        if stored > end:
            raise PositionLost(
                f"{self._consumer} is to go on at offset {stored} of {where.topic}/{where.partition}, and the log ends "
                f"at {end}: the topic was deleted and made anew, or this is another log. If it is the right one, say "
                "--from start; what was handled before is not handled twice."
            )
        return position, stored

    async def check(self, where: TopicPartition, expected: int, found: int) -> None:
        """The log gave a later offset than expected: fine where it has holes of its own, not where records are gone."""
        first = (await self._log.first_offsets(where.topic)).get(where, 0)
        if first > expected:
            raise gap(self._consumer, where, expected, min(first, found))

    def _wanted(self, where: TopicPartition, stored: int | None, first: int, end: int) -> int | None:
        """Where the command line says to begin here; it counts once, not again after every rebalance."""
        begin = self._begin
        if begin is None or where in self._begun or (begin.where is not None and begin.where != where):
            return None
        self._begun.add(where)
        if begin.everywhere == "start":
            return first
        if begin.everywhere == "end":
            if stored is not None:
                raise ConfigurationError(
                    f"--from end would leave out what {self._consumer} has not read yet in {where.topic}/"
                    f"{where.partition} (offsets {stored} to {end - 1}). It is for a consumer that has never run."
                )
            return end
        if stored is not None and begin.offset > max(stored, first):
            raise ConfigurationError(
                f"--from {where.topic}/{where.partition}:{begin.offset} would leave out records that are still there: "
                f"{self._consumer} goes on at {max(stored, first)}. Only what the log no longer has can be passed over."
            )
        if not first <= begin.offset <= end:
            raise ConfigurationError(
                f"--from {where.topic}/{where.partition}:{begin.offset} is not in the log, which has offsets {first} "
                f"to {end}."
            )
        return begin.offset


def gap(consumer: str, where: TopicPartition, wanted: int, first: int) -> PositionLost:
    place = f"{where.topic}/{where.partition}"
    return PositionLost(
        f"{consumer} is to go on at offset {wanted} of {place}, and the oldest record the log still has is {first}: "
        f"{first - wanted} offset(s) were removed before they were read. Decide what their loss means, then say --from "
        f"{place}:{first} to go on without them; and give the topic a longer retention."
    )

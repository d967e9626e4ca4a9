"""The consumer's loop in the test kit: whose turn it is, who waits behind whom, and what a failure leads to.

What a failure means is decided by the consumer's own rules and retry; here it only happens, without rests.
"""

import logging
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Literal

from surefoot.consumer import Consumer
from surefoot.consumer.dead_letter import DeadReason
from surefoot.consumer.failures import FREE_CONTENTIONS, FailureClass, classify
from surefoot.consumer.handlers import same_function
from surefoot.events import BadRecord
from surefoot.testing.consumer_handling import Handling
from surefoot.testing.consumer_records import Delivered, KitMisuse

AWAY: tuple[FailureClass, ...] = ("dependency", "database")
"""The consumer waits. There is no database here that could be asked whether it is really away, so its word is taken."""
_log = logging.getLogger(__name__)


class Loop:
    def __init__(self, consumer: Consumer, handling: Handling) -> None:
        self.duplicates = 0
        self.ignored = 0
        self._consumer = consumer
        self._handling = handling
        self._queue: deque[Delivered] = deque()
        self._lines: dict[tuple[str, str], deque[Delivered]] = {}
        """By topic and key: the one that failed, and behind it those that wait."""

    async def deliver(self, sequence: Sequence[Delivered]) -> None:
        for line in [line for line, parked in self._lines.items() if parked[0].stalled]:
            await self._drain(line)
        self._queue.extend(sequence)
        await self._take()

    async def advance(self) -> None:
        for line in list(self._lines):
            await self._drain(line)
        await self._take()

    async def _drain(self, line: tuple[str, str]) -> None:
        """Try the first of a line again; when it is out of the way, those behind it."""
        parked = self._lines[line]
        while parked and parked[0].outcome != "DEAD":
            await self._try(parked[0])
            if parked[0].holds:
                return
            parked.popleft()
        if not parked:
            del self._lines[line]

    async def _take(self) -> None:
        """Take what was delivered, until a dependency is found away: then the rest waits."""
        while self._queue:
            parts = deque([self._next_run()])
            while parts:
                part = self._whose_turn(parts.popleft())
                if len(part) > 1 and await self._whole(part) == "failed":
                    # As in production, in halves, until a failure costs only its own event.
                    parts.extendleft((part[len(part) // 2 :], part[: len(part) // 2]))
                    continue
                if len(part) == 1:
                    await self._first_try(part[0])
                if part and part[-1].outcome == "WAITING":
                    self._queue.extendleft(reversed([*part, *chain.from_iterable(parts)]))
                    return

    async def _first_try(self, one: Delivered) -> None:
        await self._try(one)
        if one.holds:
            self._lines[one.line] = deque([one])

    def _whose_turn(self, part: Sequence[Delivered]) -> list[Delivered]:
        """Those with nothing before them; the others are parked behind it."""
        turn = [one for one in part if one.line not in self._lines]
        for one in part:
            if one.line in self._lines:
                self._park_behind(one)
        return turn

    def _next_run(self) -> list[Delivered]:
        """The next event whose turn it is, with those behind it that its handler takes in the same batch."""
        run: list[Delivered] = []
        while self._queue:
            one = self._queue[0]
            if not self._consumer.handles(one.type):
                one.outcome = "IGNORED"
                self.ignored += 1
            elif one.outcome != "WAITING" or one in run:
                self.duplicates += 1
            elif one.line in self._lines:
                self._park_behind(one)
            elif not run or self._same_batch(run[0], one):
                run.append(one)
            else:
                break
            self._queue.popleft()
        return run

    def _same_batch(self, first: Delivered, one: Delivered) -> bool:
        """One function for both; and one topic, because a transaction never has records of two."""
        first_handler, handler = (self._consumer.handler(each.type, each.version) for each in (first, one))
        return first.topic == one.topic and same_function(first_handler, handler)

    def _park_behind(self, one: Delivered) -> None:
        one.outcome, one.holds = "PARKED", True
        self._lines[one.line].append(one)

    async def _whole(self, run: Sequence[Delivered]) -> Literal["done", "failed", "away"]:
        try:
            await self._handling.whole(run)
        except Exception as error:
            types = ", ".join(sorted({one.type for one in run}))
            _log.warning("%d %s failed together", len(run), types, exc_info=error)
            if classify(error, self._consumer.rules) not in AWAY:
                return "failed"
            for one in run:
                one.error = error
            return "away"
        for one in run:
            one.outcome, one.attempts = "PROCESSED", one.attempts + 1
        return "done"

    async def _try(self, one: Delivered) -> None:
        one.stalled = False
        try:
            handler, event = self._handling.read(one)
        except BadRecord as bad:
            self._bury(one, bad.reason, bad)
            return
        try:
            one.outcome = await self._handling.attempt(one, handler, event)
        except KitMisuse:
            raise
        except Exception as error:
            # Under a test that fails, pytest shows the log, and with it where the handler raised.
            _log.warning("%s failed in %s", one.type, handler.name, exc_info=error)
            one.error = error
            await self._judge(one, error)
        else:
            one.attempts += 1
            one.holds = False

    async def _judge(self, one: Delivered, error: Exception) -> None:
        failure = classify(error, self._consumer.rules)
        calling = one.prepared is not None
        if failure in AWAY or (failure == "contended" and calling):
            # A call that is under way has its place among the parked: others need not wait for it.
            if one.outcome == "PARKED" or calling:
                one.outcome, one.holds, one.stalled = "PARKED", True, True
            return
        if failure == "contended" and one.contentions < FREE_CONTENTIONS:
            one.contentions += 1
            await self._try(one)
            return
        one.attempts, one.contentions = one.attempts + 1, 0
        if failure == "permanent":
            self._bury(one, "permanent", error)
        elif self._consumer.retry.rest(one.attempts, 1.0) is None:
            self._bury(one, "out_of_attempts", error)
        else:
            one.outcome, one.holds = "PARKED", True

    def _bury(self, one: Delivered, reason: DeadReason, error: Exception) -> None:
        one.outcome, one.reason, one.error = "DEAD", reason, error
        is_command = self._handling.is_command(one)
        one.holds = self._consumer.when_dead == "hold" and not is_command
        if is_command:
            self._handling.tell_saga(one, reason, error)

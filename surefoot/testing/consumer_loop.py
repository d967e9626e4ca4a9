"""The consumer's loop in the test kit: whose turn it is, who waits behind whom, and what a failure leads to.

The consumer's own plan, rules and retry decide; here it only happens, without rests.
"""

import logging
from collections import deque
from collections.abc import Sequence
from itertools import chain, takewhile

from surefoot.consumer import Consumer, HandlerMisuse
from surefoot.consumer.dead_letter import DEAD_LETTER_TYPE
from surefoot.consumer.failures import FREE_CONTENTIONS, FailureClass, classify
from surefoot.consumer.handlers import same_function
from surefoot.consumer_runtime.attempts import Deaths, judge
from surefoot.consumer_runtime.plan import Bad, Bury, Delivery, HandleRun, Obey, Passed, Plan, Wait, cut, plan, read
from surefoot.events import BadRecord
from surefoot.testing.consumer_handling import Attempts
from surefoot.testing.consumer_records import Delivered, KitMisuse, identity

AWAY: tuple[FailureClass, ...] = ("dependency", "database")
"""The consumer waits. There is no database here that could be asked whether it is really away, so its word is taken."""
_log = logging.getLogger(__name__)


class Loop:
    def __init__(self, consumer: Consumer, attempts: Attempts) -> None:
        self.duplicates = 0
        self.ignored = 0
        self._consumer = consumer
        self._attempts = attempts
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
            await self._try([parked[0]])
            if parked[0].holds:
                return
            parked.popleft()
        if not parked:
            del self._lines[line]

    async def _take(self) -> None:
        """Take what was delivered, until a dependency is found away: then the rest waits."""
        while self._queue:
            parts = deque([self._next_part()])
            while parts:
                run, rest = self._whose_turn(parts.popleft())
                if rest:
                    parts.appendleft(rest)
                if run and not await self._try(run):
                    # As in production, in halves, until a failure costs only its own event.
                    parts.extendleft(reversed([run[where] for where in cut(len(run), None)]))
                elif run and run[0].outcome == "WAITING":
                    self._queue.extendleft(reversed([*run, *chain.from_iterable(parts)]))
                    return
                elif run and run[0].holds:
                    self._lines[run[0].line] = deque(run)

    def _next_part(self) -> list[Delivered]:
        """The next event, with those behind it that its handler may take in the same batch."""
        part = [self._queue.popleft()]
        while self._queue and self._may_join(part[0], self._queue[0]):
            part.append(self._queue.popleft())
        return part

    def _may_join(self, first: Delivered, one: Delivered) -> bool:
        """There is nothing to do with it; or there is one function for both, and one topic, because a transaction never
        has records of two."""
        if one.outcome != "WAITING" or not self._consumer.handles(one.event.type):
            return True
        handlers = (self._consumer.handler(each.event.type, each.event.version) for each in (first, one))
        return first.record.topic == one.record.topic and same_function(*handlers)

    def _whose_turn(self, part: Sequence[Delivered]) -> tuple[list[Delivered], list[Delivered]]:
        """The first of these that have their turn together, and the rest behind them. What must wait is parked."""
        topic = part[0].record.topic
        held = {key for where, key in (one.line for one in part) if where == topic and (where, key) in self._lines}
        fresh = {identity(one.event) for one in part if one.outcome == "WAITING"}
        made = self._plan(part, held, fresh)
        self.ignored += made.ignored
        self.duplicates += made.duplicates
        waits = {step.what.record.offset for step in made.steps if isinstance(step, Wait)}
        left = deque(one for one in dict.fromkeys(part) if one.outcome == "WAITING")
        while left and left[0].record.offset in waits:
            left[0].outcome, left[0].holds = "PARKED", True
            self._lines[left[0].line].append(left.popleft())
        run = list(takewhile(lambda one: one.record.offset not in waits, left))
        return run, list(left)[len(run) :]

    def _plan(
        self, part: Sequence[Delivered], held: set[str] | None = None, fresh: set[tuple[str, str]] | None = None
    ) -> Plan:
        """Read anew for each attempt: no attempt sees what another did to its event."""
        readings = [read(one.record, self._consumer) for one in part]
        for one, reading in zip(part, readings, strict=True):
            if isinstance(reading, Passed):
                one.outcome = "IGNORED"
        return plan(readings, held=held or set(), fresh=fresh, when_dead=self._consumer.when_dead)

    async def _try(self, run: Sequence[Delivered]) -> bool:
        """Try one event, or a run of a batch handler's. False if the run failed, and a smaller one may not."""
        one = run[0]
        (step,) = self._plan(run).steps
        if isinstance(step, Bury):
            one.outcome, one.holds = "DEAD", step.holds
            one.reason, one.error = step.bad.reason, self._unread(step.bad, one)
            return True
        if isinstance(step, Wait | Obey):
            raise KitMisuse(f"The kit's dead letters cannot be replayed or discarded: it cannot take {one.event!r}.")
        delivery = step.deliveries[0] if isinstance(step, HandleRun) else step.delivery
        one.stalled = False
        try:
            outcome = await self._attempts.make(step, one)
        except Exception as error:
            _let_out(error)
            # Under a test that fails, pytest shows the log, and with it where the handler raised.
            types = ", ".join(sorted({one.event.type for one in run}))
            _log.warning("%s failed in %s", types, delivery.handler.name, exc_info=error)
            return await self._judge(run, delivery, error)
        for each in run:
            each.outcome, each.attempts, each.holds = outcome, each.attempts + 1, False
        return True

    async def _judge(self, run: Sequence[Delivered], delivery: Delivery, error: Exception) -> bool:
        one, failure = run[0], classify(error, self._consumer.rules)
        if len(run) > 1 and failure not in AWAY:
            return False
        for each in run:
            each.error = error
        calling = one.prepared is not None
        if failure in AWAY or (failure == "contended" and calling):
            # A call that is under way has its place among the parked: others need not wait for it.
            if one.outcome == "PARKED" or calling:
                one.outcome, one.holds, one.stalled = "PARKED", True, True
            return True
        if failure == "contended" and one.contentions < FREE_CONTENTIONS:
            one.contentions += 1
            return await self._try(run)
        one.attempts, one.contentions = one.attempts + 1, 0
        verdict = judge(self._consumer, delivery, error, permanent=failure == "permanent", attempts=one.attempts)
        one.outcome, one.holds = "PARKED", True
        if verdict.rest_s is None:
            deaths = Deaths(self._consumer)
            one.outcome, one.reason, one.holds = "DEAD", verdict.diagnosis.reason, deaths.holds(delivery)
            entries = deaths.entries(delivery, verdict.diagnosis, attempts=one.attempts)
            self._attempts.store.publish([entry for entry in entries if entry.event_type != DEAD_LETTER_TYPE])
        return True

    def _unread(self, bad: Bad, one: Delivered) -> BadRecord:
        """A test has nothing to replay: it is told what to add for a version that nobody handles."""
        if bad.reason != "wrong_version":
            return BadRecord(bad.reason, bad.sentence)
        name, event = self._consumer.name, one.event
        known = ", ".join(map(str, self._consumer.versions(event.type)))
        sentence = f"The {event.type} event is of version {event.version}, and {name} has handlers for {known}"
        return BadRecord(bad.reason, f"{sentence}: add one for that version.")


def _let_out(error: Exception) -> None:
    """What is meant for the test and not for the consumer: the kit's own complaint, and what is no Exception, such as
    `pytest.fail()` in a handler, which the consumer takes for a misuse."""
    if isinstance(error, KitMisuse):
        raise error
    if isinstance(error, HandlerMisuse) and error.__cause__ and not isinstance(error.__cause__, Exception):
        raise error.__cause__

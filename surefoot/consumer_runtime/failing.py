"""Whose fault a failure is, asked of the rules and, where they cannot know, of the database itself."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

import structlog
from sqlalchemy.exc import SQLAlchemyError

from surefoot.consumer import Consumer
from surefoot.consumer.failures import FailureClass, Rules, causes, classify, sqlstate_of
from surefoot.consumer_runtime.attempts import Verdict
from surefoot.consumer_runtime.metrics import OUTAGES
from surefoot.consumer_runtime.plan import Bad, Delivery
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.consumer_runtime.unit import PartFailed, Position
from surefoot.database.connection import close_quietly, connect, explain, is_database_error
from surefoot.service import Outage
from surefoot.telemetry.alerts import Alert, Alerts
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.consumer")
Kind = Literal["away", "contended", "transient", "permanent"]
SHORTEST_PAUSE = timedelta(milliseconds=50)
PROBE_TIMEOUT_S = 3.0
_DATA_CLASSES = ("22", "54")
"""SQLSTATE classes: data that a column cannot hold, and what is larger than the database takes."""


class GivenUp(Exception):
    """We are to stop, and the database is away: whoever comes next goes on where it says that we stopped."""


class Failing:
    """One per partition: each says once that something is away, and once that it is back."""

    def __init__(self, consumer: Consumer, database_url: str, settings: ConsumerSettings, alerts: Alerts) -> None:
        self._consumer = consumer
        self._url = database_url
        self._alerts = alerts
        self._settings = settings
        self._database = outage_of(consumer.name, "the database", settings)
        self._lock = outage_of(consumer.name, "a lock in the database that the consumer needs", settings)
        self._dependency = outage_of(consumer.name, "something a handler depends on", settings)
        self._dependent: int | None = None
        """The offset of the event that found it away: it is back when this one has gone through."""

    def readiness(self) -> Iterable[Finding]:
        """Not of what handlers depend on: other processes of this consumer depend on it, too."""
        return [self._database.finding("database"), self._lock.finding("database")]

    async def judge(self, failed: PartFailed, stopping: asyncio.Event) -> Kind:
        """What to do about a failed part; waits if something is away."""
        kind = self._kind(failed)
        if kind == "dependency":
            self._dependent = failed.culprit.record.offset if isinstance(failed.culprit, Delivery) else None
            await self._dependency.wait(failed.error, stopping)
            return "away"
        if kind == "database" and (failed.own or not await self._database_answers()):
            await self._database.wait(failed.error, stopping)
            return "away"
        if kind == "contended" and failed.own:
            # Not a handler's locks: somebody frozen has the same events in hand, or a table of ours is locked.
            await self._lock.wait(failed.error, stopping)
            return "away"
        return "transient" if kind == "database" else kind

    async def judge_call(self, error: BaseException) -> Kind:
        """The same for an outside call, which nobody waits for."""
        kind = classify(error, self._consumer.rules)
        if kind == "dependency":
            self._dependency.failed(error)
            return "away"
        if kind == "database" and not await self._database_answers():
            return "away"
        return "transient" if kind == "database" else kind

    def call_rest_s(self) -> float:
        return min(1.0, self._settings.outage_max.total_seconds())

    async def own_trouble(self, error: BaseException, stopping: asyncio.Event) -> None:
        """A statement of ours failed: wait if waiting can mend it, else let the error out."""
        failed = error if isinstance(error, PartFailed) else PartFailed(error, own=True)
        if self._kind(failed) not in ("database", "contended"):
            raise failed.error
        if stopping.is_set():
            raise GivenUp from failed.error
        await self._database.wait(failed.error, stopping)

    def reached(self) -> None:
        """The database answers. That says nothing about what handlers depend on."""
        self._database.over()
        self._lock.over()

    def works(self, first: int, last: int) -> None:
        """The events from the first to the last offset have gone through."""
        self._database.over()
        self._lock.over()
        if self._dependent is None or first <= self._dependent <= last:
            self._dependency.over()

    async def tell(self, reading: Delivery, position: Position, verdict: Verdict, *, attempts: int) -> None:
        """A line for those who watch; an alert if it is dead."""
        diagnosis = verdict.diagnosis
        about = {
            "consumer": self._consumer.name,
            "topic": position.where.topic,
            "key": reading.key,
            "event_type": reading.event.type,  # `event` is what structlog calls the line itself
            "event_id": reading.event_id,
        }
        if verdict.rest_s is not None:
            rest = f"{verdict.rest_s:.1f}"
            log.warning(
                "a handler failed; its key waits", **about, attempt=attempts, rest_s=rest, error=diagnosis.error
            )
            return
        sentence = (
            f"{self._consumer.name} gave up on a {reading.event.type} event after {attempts} attempt(s): "
            f"{diagnosis.error}"
        )
        await self._alerts.raise_alert(Alert("dead_letter", sentence, {**about, "reason": diagnosis.reason}))

    def _kind(self, failed: PartFailed) -> FailureClass:
        # Out of a handler a broken socket may be anybody's; here it can only be the database's.
        # And a statement that ran into a limit of its time was a handler's own, or it waited like any other of ours.
        if failed.own and (isinstance(failed.error, OSError) or sqlstate_of(failed.error) == "57014"):
            return "database"
        return classify(failed.error, self._consumer.rules)

    async def tell_bad(self, bad: Bad) -> None:
        """A record that is no event, or not the one it says: no handler has failed, and it is dead all the same."""
        record = bad.record
        place = f"{record.topic}/{record.partition}:{record.offset}"
        sentence = f"{self._consumer.name} buried the record at {place}: {bad.sentence}"
        about = {"consumer": self._consumer.name, "topic": record.topic, "at": place, "event_id": bad.event_id}
        await self._alerts.raise_alert(Alert("dead_letter", sentence, {**about, "reason": bad.reason}))

    async def _database_answers(self) -> bool:
        """A probe on a fresh connection: a handler whose connection was lost may have lost it by its own doing."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                connection = await connect(self._url, name="surefoot probe")
                try:
                    await connection.fetchval("SELECT 1")
                finally:
                    await close_quietly(connection)
        except Exception:
            return False
        return True


def outage_of(consumer: str, what: str, settings: ConsumerSettings) -> Outage:
    return Outage(what, OUTAGES.labels(consumer, what), shortest=SHORTEST_PAUSE, longest=settings.outage_max)


def explained(error: Exception, url: str) -> Exception:
    """A database's own error as a sentence; anything else as it is."""
    for cause in causes(error):
        if is_database_error(cause) and getattr(cause, "sqlstate", None):
            return explain(cause, url)
    return error


def is_away(error: BaseException) -> bool:
    """Of an error in a statement of ours: whether waiting can mend it. Out of a handler a broken socket may be
    anybody's; here it can only be the database's."""
    return isinstance(error, OSError) or classify(error, Rules()) == "database"


def is_about_what_was_given(error: BaseException) -> bool:
    """Of an error in our own work on a record: whether the record can never be taken, now or later. Else it is the
    database, the way to it, or somebody's locks."""
    state = sqlstate_of(error)
    if state:
        return state.startswith(_DATA_CLASSES)
    return not any(is_database_error(cause) or isinstance(cause, SQLAlchemyError) for cause in causes(error))

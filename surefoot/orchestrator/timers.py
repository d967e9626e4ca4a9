"""Timers: on the database's clock, looked for by every orchestrator, each decided by whoever locks its saga.

A timer that has run out is judged (see `silence`); if it counts, it is decided as any stimulus is, in a transaction of
its own. What was away (the log, the database, ourselves) gets as long again to answer.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog

from surefoot.database.connection import Connection, Row, connect, is_outage
from surefoot.errors import LogUnavailable, words_of
from surefoot.failpoints import failpoint
from surefoot.orchestrator.deciding import carry_out
from surefoot.orchestrator.evidence import Witness
from surefoot.orchestrator.metrics import OUTAGES, TIMERS_FIRED, TIMERS_POSTPONED
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.orchestrator.silence import (
    LAST_LOOK,
    Counts,
    Due,
    Evidence,
    Listen,
    NotBefore,
    Suspicion,
    judge,
    reader_of,
)
from surefoot.orchestrator.store import SESSION_SETTINGS, Store
from surefoot.orchestrator.work import Work
from surefoot.outbox import Outbox
from surefoot.outbox.entry import entry_of
from surefoot.saga.definition import Step
from surefoot.saga.stimulus import Broken, Fired
from surefoot.service import NO_REST, DatabaseService, Outage
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.orchestrator")
SHORTEST_PAUSE = timedelta(milliseconds=100)
LONGEST_PAUSE = timedelta(seconds=3)
LISTEN_TO_THE_LOG_S = 1.0
FORGET_SUSPICIONS = 100_000
TIMER_BATCH = 500
"""Timers looked at together."""
FAILURES_UNTIL_STUCK = 5


class Timers(DatabaseService):
    def __init__(
        self, registry: Registry, store: Store, witness: Witness, url: str, settings: OrchestratorSettings
    ) -> None:
        connecting = partial(
            connect,
            url,
            name="surefoot saga timers",
            lock_timeout=timedelta(seconds=5),
            transaction_timeout=settings.longest_decision,
            command_timeout=timedelta(seconds=30),
            settings=SESSION_SETTINGS,
        )
        super().__init__("timers", url, connecting, _outage("the database"))
        self._registry = registry
        self._store = store
        self._witness = witness
        self._settings = settings
        self._log_away = _outage("the event log")
        self._listened_at = 0.0
        self._outbox = Outbox(settings.db_schema)
        self._suspicions: dict[tuple[str, str, str, int, str], Suspicion] = {}
        self._failures: dict[tuple[str, str, str, int, str], int] = {}
        self._told_unread: set[tuple[str, str]] = set()

    def readiness(self) -> Iterable[Finding]:
        return [*super().readiness(), self._log_away.finding("log")]

    async def begin(self, connection: Connection) -> None:
        self._listened_at = 0.0
        if self.database_away.is_on:
            await self._give_time(connection, timedelta(seconds=self.database_away.lasted_s))
            self.database_away.over()
        else:
            await connection.execute(self._store.sql.give_time_to_forgotten, self._settings.grace)

    async def round(self) -> timedelta:
        connection = await self.connected()
        worked = await self._judge_due(connection)
        if time.monotonic() - self._listened_at > LISTEN_TO_THE_LOG_S:
            await self._witness.ends()
            self._listened_at = time.monotonic()
        if self._log_away.is_on:
            # Replies that were written meanwhile are only now on their way.
            await self._give_time(connection, timedelta(seconds=self._log_away.lasted_s))
            self._log_away.over()
        return NO_REST if worked else self._settings.timer_poll

    async def outage_of(self, error: Exception) -> Outage:
        if isinstance(error, LogUnavailable):
            self._listened_at = 0.0
            return self._log_away
        return await super().outage_of(error)

    async def _give_time(self, connection: Connection, away: timedelta) -> None:
        """What was away for so long has as long again to answer, before silence counts."""
        await connection.execute(self._store.sql.give_time, max(away, self._settings.grace))
        self._suspicions.clear()

    async def _judge_due(self, connection: Connection) -> int:
        """Judge what is due; how many timers counted."""
        # A newer orchestrator may run beside us, with sagas of a version that we do not know: their timers are its own.
        types, versions = zip(*self._registry.definitions, strict=True)
        rows = await connection.fetch(self._store.sql.due, TIMER_BATCH, list(types), list(versions))
        due = [self._due(row) for row in rows]
        if not due:
            return 0
        evidence = await self._witness.ask(connection, due)
        counting: list[Due] = []
        later: list[tuple[Due, datetime]] = []
        for one in due:
            suspicion = self._suspicions.pop(one.identity, None)
            verdict = judge(one, evidence, suspicion, self._settings.grace, self._witness.topics)
            match verdict:
                case Counts():
                    counting.append(one)
                case NotBefore(at, why):
                    TIMERS_POSTPONED.labels(why).inc()
                    later.append((one, at))
                case Listen(suspicion, after, why):
                    if why is not None:
                        TIMERS_POSTPONED.labels(why).inc()
                    if why == "unread":
                        self._tell_unread(one, evidence)
                    self._suspicions[one.identity] = suspicion
                    later.append((one, one.now + after))
        await self._look_again(connection, later)
        if counting:
            await self._fire(connection, counting)
        if len(self._suspicions) > FORGET_SUSPICIONS:  # of sagas that have gone on; the others are judged anew
            self._suspicions.clear()
        return len(counting)

    def _tell_unread(self, one: Due, evidence: Evidence) -> None:
        """Once: that nobody by the name we look for reads the step's commands. It may only be called otherwise."""
        if one.reader is None:
            return
        name, where = one.reader
        if (name, where.topic) in self._told_unread or evidence.readers.get(name):
            return
        self._told_unread.add((name, where.topic))
        log.warning(
            f"no consumer {name} has read {where.topic}, so its commands do not time out. If the one that reads them "
            f"has another name, say so in the saga: step(…, handled_by=…)",
            step=one.step,
        )

    def _due(self, row: Row) -> Due:
        definition = self._registry.definition(row[10], row[11])
        node = definition.parts[row[2]]
        reader = None
        if row[5] == "timeout" and isinstance(node, Step) and not node.unread_counts:
            reader = reader_of(node, row[3], row[0])
        return Due(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], reader, row[10])

    async def _look_again(self, connection: Connection, later: Sequence[tuple[Due, datetime]]) -> None:
        if later:
            columns = [list(column) for column in zip(*((*one.identity, at) for one, at in later), strict=True)]
            await connection.execute(self._store.sql.look_again, *columns)

    async def _fire(self, connection: Connection, counting: Sequence[Due]) -> None:
        await failpoint("saga.fired")
        wanted = {one.saga_id: one for one in counting}
        failed: list[tuple[Due, Exception]] = []
        async with self._outbox.transaction(connection) as tx:
            sagas = await self._store.lock_free(connection, list(wanted))
            rows = await connection.fetch(self._store.sql.still_due, list(sagas))
            still = {row[0] for row in rows if wanted[row[0]].identity == tuple(row[n] for n in range(5))}
            work = Work({saga_id: saga for saga_id, saga in sagas.items() if saga_id in still})
            for saga_id, saga in list(work.sagas.items()):
                one = wanted[saga_id]
                try:
                    work.decide(saga, Fired(one.step, one.direction, one.attempt, one.kind), None)
                    for event in work.events_of(saga_id):
                        entry_of(event)  # what cannot be published fails here, where it is known whose it is
                except Exception as error:  # of the functions in the definition, which are anybody's
                    work.drop(saga_id)
                    failed.append((one, error))
                    continue
                TIMERS_FIRED.labels(one.kind).inc()
            await carry_out(self._store, connection, work, tx.add)
            await failpoint("saga.timer_decided")
        await failpoint("saga.timer_committed")
        for one, trouble in failed:
            await self._after_failure(connection, one, trouble)

    async def _after_failure(self, connection: Connection, one: Due, error: Exception) -> None:
        """A function of the definition fails, or makes what cannot be published. It may be mended by a deployment; if
        it is not soon, the saga is stuck, in front of a person who sees why."""
        failures = self._failures[one.identity] = self._failures.get(one.identity, 0) + 1
        sentence = f"The timer of {one.step} could not be decided. {words_of(error)}"
        log.error("timer of a saga fails; the others go on", saga_id=one.saga_id, step=one.step, error=words_of(error))
        TIMERS_POSTPONED.labels("failed").inc()
        if failures < FAILURES_UNTIL_STUCK:
            await self._look_again(connection, [(one, one.now + LAST_LOOK)])
            return
        del self._failures[one.identity]
        try:
            await self._get_stuck(connection, one, sentence)
        except Exception as trouble:
            if is_outage(trouble):
                raise
            log.error("a saga cannot even get stuck", saga_id=one.saga_id, error=words_of(trouble))
            await self._look_again(connection, [(one, one.now + LAST_LOOK)])

    async def _get_stuck(self, connection: Connection, one: Due, sentence: str) -> None:
        async with self._outbox.transaction(connection) as tx:
            work = Work(await self._store.lock_free(connection, [one.saga_id]))
            for saga in work.sagas.values():
                work.decide(saga, Broken(one.step, one.direction, one.attempt, one.kind, sentence), None)
            await carry_out(self._store, connection, work, tx.add)


def _outage(what: str) -> Outage:
    return Outage(f"saga timers: {what}", OUTAGES, shortest=SHORTEST_PAUSE, longest=LONGEST_PAUSE)

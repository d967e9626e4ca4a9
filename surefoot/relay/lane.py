"""One lane: claim, publish, mark, again. Lanes run beside each other on different shards, so the three overlap.

A shard's next rows are claimed only when its last ones are acknowledged and marked: one batch in flight, so that a
refused record is never overtaken by a later one of its key. Nothing that fails here loses a row: what was not marked
is PENDING.

Each topic has its own outage: one whose leader is gone, or that we may not write to, must not keep the others waiting.
When the whole log is away, all topics are; the lanes then find nothing to claim and rest.

Which shards this relay owns is renewed by a heartbeat of its own. A lane takes a snapshot of its leases at the start of
a round; a shard is let go only between two rounds of its lane.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import assert_never

import structlog

from surefoot.database.connection import is_database_error
from surefoot.database.leases import Lease, Leases
from surefoot.errors import LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import Publisher, Refusal, TopicSpec
from surefoot.relay.metrics import (
    FAILED,
    HEARTBEAT,
    LEASES_LOST,
    LOG_OUTAGES,
    PUBLISHED,
    REFUSED,
    ROUND_SECONDS,
    SHARDS_OWNED,
)
from surefoot.relay.plan import ADVICE, GiveUp, PendingRow, RefusedRow, TryAgain, after_refusal, plan, split
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import HOLD_ROWS, RefusedMark, RelayStore
from surefoot.service import Outage
from surefoot.telemetry.alerts import Alert
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.relay")
BATCH_BYTES = 8 * 1024 * 1024
"""Most bytes of one round; at least one row is taken."""
Notify = Callable[[Alert], Awaitable[None]]
STILL_TRIED_S = 10.0
"""A topic that is away is tried again within this time after its pause, if there is anything to publish to it."""
NO_HEARTBEAT_YET = Finding("ownership", None, "this relay has had no heartbeat yet")


class Ownership:
    def __init__(self, *, lanes: int, on_gain: Callable[[], None]) -> None:
        self._leases: dict[int, Lease] = {}
        self._rounds = [asyncio.Lock() for _ in range(lanes)]
        self._on_gain = on_gain
        self._letting_go: dict[int, asyncio.Task[None]] = {}
        self._going: set[int] = set()
        self._beat_at: float | None = None
        self._relays = 0

    def round(self, lane: int) -> asyncio.Lock:
        """Held by a lane during a round."""
        return self._rounds[lane]

    def of_lane(self, lane: int) -> dict[int, Lease]:
        """The valid leases of a lane's shards."""
        return {
            unit: lease for unit, lease in self._leases.items() if unit % len(self._rounds) == lane and lease.is_valid()
        }

    def units(self) -> list[int]:
        return sorted(self._leases)

    def finding(self, lease: timedelta) -> Finding:
        """A relay is ready once it takes part: with other relays beside it, it may own no shard at all."""
        if self._beat_at is None:
            return NO_HEARTBEAT_YET
        ago_s = time.monotonic() - self._beat_at
        if ago_s > lease.total_seconds():
            return Finding("ownership", False, f"the last heartbeat of this relay was {ago_s:.0f} s ago")
        owned = f"this relay owns {len(self._leases)} shard(s); {self._relays} relay(s) share them"
        return Finding("ownership", True, owned)

    def lost(self, unit: int, fence: int) -> None:
        """A mark was refused: somebody else owns this shard."""
        held = self._leases.get(unit)
        if held is not None and held.fence == fence:
            del self._leases[unit]
            LEASES_LOST.inc()
            log.warning("lost a shard to another relay; what it had sent may be sent again", shard=unit, fence=fence)

    async def beat(self, leases: Leases, *, acquire: bool = True) -> None:
        """One heartbeat: renew, take, and let go what is above our share."""
        standing = await leases.heartbeat(acquire=acquire)
        held = {unit: lease for unit, lease in standing.held.items() if unit not in self._going}
        gained = sorted(held.keys() - self._leases.keys())
        gone = sorted(self._leases.keys() - held.keys())
        self._leases = held
        for unit in standing.surplus - self._letting_go.keys():
            # Beside the heartbeats: a lane may be waiting for the log, and the other leases must not run out meanwhile.
            task = asyncio.create_task(self._let_go(unit, leases))
            self._letting_go[unit] = task
            task.add_done_callback(partial(self._forget_letting_go, unit))
        if gained:
            self._on_gain()
        if gained or gone:
            log.info("shards", owned=len(self._leases), gained=gained, gone=gone, relays=standing.members)
        self._beat_at, self._relays = time.monotonic(), standing.members
        SHARDS_OWNED.set(len(self._leases))
        HEARTBEAT.set_to_current_time()

    async def _let_go(self, unit: int, leases: Leases) -> None:
        async with self._rounds[unit % len(self._rounds)]:
            lease = self._leases.pop(unit, None)
            self._going.add(unit)
        try:
            if lease is not None:
                await leases.release(lease)
                log.info("let a shard go to another relay", shard=unit)
        except Exception as error:
            if not is_database_error(error):
                raise  # else: the next heartbeat finds it too many again
        finally:
            self._going.discard(unit)

    def _forget_letting_go(self, unit: int, _: object) -> None:
        self._letting_go.pop(unit, None)

    async def settled(self) -> None:
        """Wait for shards on their way out."""
        if self._letting_go:
            await asyncio.wait(set(self._letting_go.values()))


@dataclass(frozen=True, slots=True)
class Round:
    """What a round did. `full`: there is probably more waiting."""

    found: int
    full: bool


class Lane:
    def __init__(
        self, number: int, *, settings: RelaySettings, ownership: Ownership, publisher: Publisher, notify: Notify
    ) -> None:
        self._number = number
        self._settings = settings
        self._ownership = ownership
        self._publisher = publisher
        self._notify = notify
        self._away = TopicsAway(settings)
        self._holds_at = 0.0

    def readiness(self) -> Iterable[Finding]:
        return self._away.readiness()

    async def round(self, store: RelayStore) -> Round:
        """Claim, publish and mark once. Raises database errors; neither they nor a log that is away burn an attempt."""
        async with self._ownership.round(self._number):
            leases = self._ownership.of_lane(self._number)
            if not leases:
                return Round(0, full=False)
            settings = self._settings
            await self._hold(store, leases)
            with ROUND_SECONDS.labels("claim").time():
                rows = await store.claim(
                    list(leases),
                    rows=settings.batch_rows,
                    size=BATCH_BYTES,
                    without_topics=self._away.names(),
                )
            if not rows:
                return Round(0, full=False)
            await failpoint("relay.claimed")
            with ROUND_SECONDS.labels("publish").time():
                published, refused = await self._publish(rows, leases)
            await failpoint("relay.acknowledged")
            with ROUND_SECONDS.labels("mark").time():
                await self._mark(store, leases, published, refused)
            await failpoint("relay.committed")
            # As many rows as one shard may give: one of them probably has more. After a refusal: rows were left behind.
            done = len(published) + len(refused)
            return Round(done, full=(bool(done) and len(rows) >= settings.batch_rows // len(leases)) or bool(refused))

    async def _hold(self, store: RelayStore, leases: Mapping[int, Lease]) -> None:
        """Now and then, and at once when a row has FAILED: claims should not read past what is held every time."""
        if time.monotonic() < self._holds_at:
            return
        moved = await store.hold(leases)
        pause = 0.0 if moved == HOLD_ROWS else self._settings.housekeeping.total_seconds()
        self._holds_at = time.monotonic() + pause

    async def _publish(
        self, rows: Sequence[PendingRow], leases: Mapping[int, Lease]
    ) -> tuple[list[PendingRow], list[RefusedRow]]:
        topics = await self._topics({row.topic for row in rows})
        # A relay that was frozen since it claimed may have lost its shards: it would only repeat what another sent.
        if not all(lease.is_valid() for lease in leases.values()):
            return [], []
        planned = plan([row for row in rows if row.topic in topics], topics)
        outcomes = await asyncio.gather(
            *(self._publisher.publish(where, batch.records) for where, batch in planned.batches.items()),
            return_exceptions=True,
        )
        published: list[PendingRow] = []
        refused = list(planned.refused)
        failed: dict[str, BaseException] = {}
        for (where, batch), outcome in zip(planned.batches.items(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failed[where.topic] = outcome
            else:
                sent, rejected = split(batch.rows, outcome)
                published.extend(sent)
                refused.extend(rejected)
        for topic in {where.topic for where in planned.batches} - failed.keys():
            self._away.works(topic)
        for topic, error in failed.items():
            self._could_not(topic, error)
        return published, refused

    async def _topics(self, names: Set[str]) -> dict[str, TopicSpec | None]:
        """What the log says of these topics; those it would not tell about are left out of this round."""
        ordered = sorted(names)
        answers = await asyncio.gather(*(self._publisher.topic(name) for name in ordered), return_exceptions=True)
        found: dict[str, TopicSpec | None] = {}
        for name, answer in zip(ordered, answers, strict=True):
            if isinstance(answer, BaseException):
                self._could_not(name, answer)
            else:
                found[name] = answer
        return found

    def _could_not(self, topic: str, error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error  # we are being cancelled
        if not isinstance(error, LogUnavailable):
            log.error("publishing failed in a way nobody foresaw; its topic waits", topic=topic, exc_info=error)
        self._away.failed(topic, error)

    async def _mark(
        self, store: RelayStore, leases: Mapping[int, Lease], published: list[PendingRow], refused: list[RefusedRow]
    ) -> None:
        if not published and not refused:
            return
        marks = [self._decide(row) for row in refused]
        still_ours = await store.mark(leases, published, marks)
        for shard in leases.keys() - still_ours:
            self._ownership.lost(shard, leases[shard].fence)
        for topic, count in Counter(row.topic for row in published if row.shard in still_ours).items():
            PUBLISHED.labels(topic).inc(count)
        await self._tell([(row, mark) for row, mark in zip(refused, marks, strict=True) if mark.shard in still_ours])

    def _decide(self, refused: RefusedRow) -> RefusedMark:
        settings = self._settings
        decision = after_refusal(
            refused.row.attempts,
            max_attempts=settings.max_attempts,
            retry_min=settings.retry_min,
            retry_max=settings.retry_max,
        )
        retry_after: timedelta | None
        match decision:
            case TryAgain(after):
                retry_after = after
            case GiveUp():
                retry_after = None
            case _:
                assert_never(decision)
        sentence = f"{refused.sentence} {ADVICE[refused.reason]}"
        return RefusedMark(refused.row.position, refused.row.shard, sentence, retry_after)

    async def _tell(self, refusals: Sequence[tuple[RefusedRow, RefusedMark]]) -> None:
        """An alert for each row that FAILED; one line for all that will be tried again."""
        again: dict[tuple[str, Refusal], list[RefusedRow]] = {}
        for refused, mark in refusals:
            row = refused.row
            REFUSED.labels(row.topic, refused.reason).inc()
            if mark.retry_after is not None:
                again.setdefault((row.topic, refused.reason), []).append(refused)
                continue
            self._holds_at = 0.0
            FAILED.labels(row.topic, refused.reason).inc()
            details = {"topic": row.topic, "key": row.key, "position": str(row.position), "reason": refused.reason}
            sentence = f"An outbox event is FAILED and its key is held. {mark.sentence}"
            await self._notify(Alert("outbox_event_failed", sentence, details))
        for (topic, reason), rows in again.items():
            log.warning(
                "the log refused events; their keys wait and are tried again, others go on",
                topic=topic,
                reason=reason,
                events=len(rows),
                first_key=rows[0].row.key,
                error=rows[0].sentence,
            )


class TopicsAway:
    def __init__(self, settings: RelaySettings) -> None:
        self._settings = settings
        self._outages: dict[str, Outage] = {}
        self._until: dict[str, float] = {}

    def names(self) -> list[str]:
        """Those to be left out of the next claim."""
        now = time.monotonic()
        return [topic for topic, until in self._until.items() if until > now]

    def readiness(self) -> Iterable[Finding]:
        """Of the topics that are tried: those that nobody publishes to any more are nobody's trouble."""
        tried_after = time.monotonic() - STILL_TRIED_S
        return [
            outage.finding("log")
            for topic, outage in list(self._outages.items())
            if self._until.get(topic, 0.0) > tried_after
        ]

    def failed(self, topic: str, error: BaseException) -> None:
        outage = self._outages.setdefault(
            topic, Outage(f"the topic {topic}", LOG_OUTAGES, **self._settings.outage_pauses)
        )
        self._until[topic] = time.monotonic() + outage.failed(error).total_seconds()

    def works(self, topic: str) -> None:
        outage = self._outages.pop(topic, None)
        if outage is not None:
            outage.over()
            self._until.pop(topic, None)

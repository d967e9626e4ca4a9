"""One lane: claim, publish, mark, again. Lanes run beside each other on different shards, so the three overlap.

A shard's next rows are claimed only when its last ones are acknowledged and marked: one batch in flight, so that a
refused record is never overtaken by a later one of its key. Nothing that fails here loses a row: what was not marked
is PENDING.

Each topic has its own outage: one whose leader is gone, or that we may not write to, must not keep the others waiting.
When the whole log is away, all topics are; the lanes then find nothing to claim and rest.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

import structlog

from surefoot.database.leases import Lease
from surefoot.errors import LogUnavailable
from surefoot.failpoints import failpoint
from surefoot.log.port import Publisher, Refusal, TopicSpec
from surefoot.relay.metrics import FAILED, LOG_OUTAGES, PUBLISHED, REFUSED, ROUND_SECONDS
from surefoot.relay.ownership import Ownership
from surefoot.relay.plan import ADVICE, GiveUp, PendingRow, RefusedRow, TryAgain, after_refusal, plan, split
from surefoot.relay.settings import RelaySettings
from surefoot.relay.store import HOLD_ROWS, RefusedMark, RelayStore
from surefoot.telemetry.alerts import Alert
from surefoot.telemetry.outage import Outage

log = structlog.get_logger("surefoot.relay")
Notify = Callable[[Alert], Awaitable[None]]


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
                    size=settings.batch_bytes,
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

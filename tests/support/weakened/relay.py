"""A relay with one protection taken out, to show that the crash tests would notice.

Each function below undoes one protection of the real relay, as a plausible mistake would, and nothing else.
"""

from collections.abc import Callable, Sequence

import surefoot.relay.store as store
from surefoot.cli.main import main as main
from surefoot.log.kafka.publisher import KafkaPublisher
from surefoot.log.port import Acknowledged, PublishOutcome, Record, Refused, TopicPartition
from surefoot.relay.plan import PendingRow


def fence() -> None:
    """Marks are written whoever owns the shard by now."""

    def any_owner(schema: str) -> str:
        return f"""
            SELECT unit FROM {schema}.leases
            WHERE scope = 'outbox' AND unit = ANY ($1::int[]) AND $2::bigint[] IS NOT NULL"""

    store.fence_statement = any_owner


def status_filter() -> None:
    """Rows are read by a watermark instead of by status: on from the highest position seen."""
    real = store.RelayStore.claim
    highest: dict[int, int] = {}

    async def by_watermark(
        self: store.RelayStore, shards: Sequence[int], *, rows: int, size: int, without_topics: Sequence[str] = ()
    ) -> list[PendingRow]:
        claimed = await real(self, shards, rows=rows, size=size, without_topics=without_topics)
        found = [row for row in claimed if row.position > highest.get(0, 0)]
        if found:
            highest[0] = max(row.position for row in found)
        return found

    store.RelayStore.claim = by_watermark  # type: ignore[method-assign]


def one_batch_in_flight() -> None:
    """What comes after a refused record is sent all the same, as it would be by a producer with batches in flight."""
    real = KafkaPublisher.publish

    async def sends_on(self: KafkaPublisher, where: TopicPartition, records: Sequence[Record]) -> PublishOutcome:
        outcome = await real(self, where, records)
        if isinstance(outcome, Refused):
            rest = records[outcome.index + 1 :]
            if rest and isinstance(await sends_on(self, where, rest), Acknowledged):
                return outcome
        return outcome

    KafkaPublisher.publish = sends_on  # type: ignore[method-assign]


PROTECTIONS: dict[str, Callable[[], None]] = {
    "fence": fence,
    "status_filter": status_filter,
    "one_batch_in_flight": one_batch_in_flight,
}

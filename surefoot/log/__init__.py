"""The event log: one small port, two adapters. `open_log` picks the adapter; nothing above knows which it got."""

from surefoot.log.partitioner import key_hash, partition_of
from surefoot.log.port import (
    Acknowledged,
    EventLog,
    Publisher,
    Record,
    Refused,
    StoredRecord,
    Subscription,
    TopicPartition,
    TopicSpec,
)

__all__ = [
    "Acknowledged",
    "EventLog",
    "Publisher",
    "Record",
    "Refused",
    "StoredRecord",
    "Subscription",
    "TopicPartition",
    "TopicSpec",
    "key_hash",
    "partition_of",
]

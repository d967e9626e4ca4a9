"""The event log: one small port, two adapters. `surefoot.log.opening` picks the adapter.

Code that uses the port does not know which adapter it got, and does not load the settings of either.
"""

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
    key_hash,
    partition_of,
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

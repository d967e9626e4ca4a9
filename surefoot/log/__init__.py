"""The event log: one small port, two adapters. `open_log` picks the adapter; nothing above knows which it got."""

from surefoot.log.kafka_settings import KafkaSettings
from surefoot.log.log_settings import LogSettings
from surefoot.log.opening import open_log
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
    "KafkaSettings",
    "LogSettings",
    "Publisher",
    "Record",
    "Refused",
    "StoredRecord",
    "Subscription",
    "TopicPartition",
    "TopicSpec",
    "key_hash",
    "open_log",
    "partition_of",
]

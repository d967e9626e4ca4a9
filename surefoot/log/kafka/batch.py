"""Filling one record batch for one partition: as many records as the topic's limit allows, in order. Pure."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.log.kafka.aiokafka_typed import Batch, new_batch
from surefoot.log.kafka.client import KafkaTopic
from surefoot.log.port import Record
from surefoot.log.record_size import record_bytes

MAX_BATCH_BYTES = 1 << 20
"""No batch is longer than this, whatever the topic allows: a larger one gains nothing and is acknowledged later."""


@dataclass(frozen=True, slots=True)
class Filled:
    batch: Batch
    count: int
    oversized: int | None = None
    """The size of the record after these, if no batch of this topic can ever take it."""


def fill(records: Sequence[Record], start: int, stop: int, topic: KafkaTopic) -> Filled:
    """A batch of records[start:…], ended by `stop`, by a full batch, or by a record that is too large."""
    batch = new_batch(min(topic.max_message_bytes, MAX_BATCH_BYTES))
    append = batch.append
    suspicious = topic.spec.max_record_bytes
    now = int(time.time() * 1000)
    for index in range(start, stop):
        key, value, headers = records[index]
        listed = headers if type(headers) is list else list(headers)  # aiokafka's C code takes nothing but a list
        added = append(timestamp=now, key=key, value=value, headers=listed)
        if added is None:
            return Filled(batch, index - start)
        # What a record takes in a batch is always more than its own bytes, so nearly all pass on this one comparison.
        if added.size > suspicious:
            size = record_bytes(records[index])
            if size > suspicious or (index == start and batch.size() > topic.max_message_bytes):
                # It is in the batch already: the batch is made again without it.
                return Filled(fill(records, start, index, topic).batch, index - start, oversized=size)
    return Filled(batch, stop - start)

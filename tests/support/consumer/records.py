"""Records for the unit tests of the consumer runtime, made without a log."""

from surefoot.events import new_event
from surefoot.log.port import Headers, Record, StoredRecord
from tests.support.consumer.processes import record_of
from tests.support.event_types import ThingHappened


def stored(record: Record, *, offset: int = 0, timestamp_ms: int = 1_770_000_000_000) -> StoredRecord:
    return StoredRecord("test.things", 3, offset, timestamp_ms, *record)


def happened(key: str = "a", number: int = 1, *, offset: int = 0) -> StoredRecord:
    return stored(record_of(new_event(ThingHappened(thing_id=key, number=number))), offset=offset)


def raw(value: bytes | None, headers: Headers = (), key: bytes | None = b"a", *, offset: int = 0) -> StoredRecord:
    return stored(Record(key, value, headers), offset=offset)

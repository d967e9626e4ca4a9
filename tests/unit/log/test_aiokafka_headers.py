"""Batches with header names that are not UTF-8 are read to their end, each record once; the others as ever."""

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchBuilderPy
from aiokafka.record.memory_records import MemoryRecords

import surefoot.log.kafka.aiokafka_typed  # noqa: F401  # puts the mend in place
from surefoot.log.kafka import aiokafka_typed as aiokafka_headers

PLAIN, GZIP = 0, 1
GOOD = [("größe", b"\xff"), ("null", None)]


class Misnamed(str):
    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe\xc3\xb6"  # two bad bytes, then an ö


BAD = [("ce_id", b"1"), (Misnamed(), b"\xff"), ("null", None)]
BAD_AS_READ = (("ce_id", b"1"), ("\\xff\\xfeö", b"\xff"), ("null", None))


def batch(*headers: list[tuple[str, bytes | None]], first: int = 0, compression: int = PLAIN) -> bytes:
    """The bytes of a batch of records with these headers, at the offsets from `first` on."""
    builder = _DefaultRecordBatchBuilderPy(2, compression, 0, -1, -1, -1, 1 << 20)
    for n, of_one in enumerate(headers):
        builder.append(n, 1_700_000_000_000, b"key", b"value " * 100 + b"%d" % (first + n), of_one)
    built = builder.build()
    built[:8] = first.to_bytes(8, "big")  # as the broker does when it stores it; not part of the checksum
    return bytes(built)


def read(raw: bytes, reader: Any, position: int = 0) -> list[Any]:
    where = TopicPartition("t", 0)
    return list(fetcher.PartitionRecords(where, reader(raw), None, position, None, None, True, 0))


def test_this_is_what_consumers_use() -> None:
    assert fetcher.MemoryRecords is aiokafka_headers._Batches


def test_without_the_mend_aiokafka_stops_there() -> None:
    with pytest.raises(UnicodeDecodeError):
        read(batch(GOOD, BAD), MemoryRecords)


@pytest.mark.parametrize("compression", [PLAIN, GZIP])
def test_every_record_comes_once_and_in_order(compression: int) -> None:
    raw = batch(GOOD, GOOD, compression=compression) + batch(GOOD, BAD, GOOD, BAD, first=2, compression=compression)
    raw += batch(GOOD, first=6, compression=compression)

    found = read(raw, fetcher.MemoryRecords)

    assert [record.offset for record in found] == [0, 1, 2, 3, 4, 5, 6]
    assert [record.value for record in found] == [b"value " * 100 + b"%d" % n for n in range(7)]
    assert [record.headers for record in found] == [
        *[tuple(GOOD)] * 3,
        BAD_AS_READ,
        tuple(GOOD),
        BAD_AS_READ,
        tuple(GOOD),
    ]


def test_reading_can_begin_in_the_midst_of_such_a_batch() -> None:
    assert [record.offset for record in read(batch(BAD, GOOD, BAD, GOOD), fetcher.MemoryRecords, position=2)] == [2, 3]


def test_a_batch_of_good_names_is_read_by_the_fast_reader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = batch(GOOD, GOOD)
    [first, second] = list(DefaultRecordBatch(raw))
    monkeypatch.setattr("surefoot.log.kafka.aiokafka_typed._LenientBatch", None)

    found = read(raw, fetcher.MemoryRecords)

    assert [(record.value, list(record.headers)) for record in found] == [
        (first.value, first.headers),
        (second.value, second.headers),
    ]


def test_a_damaged_batch_is_still_refused() -> None:
    raw = bytearray(batch(GOOD, BAD))
    raw[-1] ^= 0xFF

    with pytest.raises(Exception, match="Invalid CRC"):
        read(bytes(raw), fetcher.MemoryRecords)

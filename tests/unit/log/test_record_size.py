"""A record's size is the bytes of its key, its value, and its headers' names and values."""

from surefoot.log.port import Record, record_bytes


def test_every_byte_is_counted_and_nothing_counts_nothing() -> None:
    assert record_bytes(Record(b"key", b"value", [("name", b"1234"), ("größe", b""), ("null", None)])) == 8 + 8 + 7 + 4
    assert record_bytes(Record(None, None, [])) == 0

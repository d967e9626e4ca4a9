"""Which event a record is, and behind whom it waits."""

import pytest

from surefoot.consumer.handlers import inbox_identity, ordering_key, record_identity


def test_source_and_id_are_kept_as_they_are_if_they_fit() -> None:
    assert inbox_identity("/orders", "o-1") == ("/orders", "o-1")
    assert inbox_identity("s" * 500, "i" * 500) == ("s" * 500, "i" * 500)


def test_what_is_too_long_for_an_index_is_replaced_by_its_hash() -> None:
    source, event_id = inbox_identity("/orders", "x" * 994)
    assert event_id.startswith("x" * 40 + "… sha256:")
    assert source.startswith("/orders… sha256:")
    assert len((source + event_id).encode()) < 1000


def test_two_long_ids_that_begin_alike_stay_different() -> None:
    one, other = inbox_identity("/orders", "x" * 2000 + "1"), inbox_identity("/orders", "x" * 2000 + "2")
    assert one != other
    assert one == inbox_identity("/orders", "x" * 2000 + "1")


def test_length_is_counted_in_bytes() -> None:
    assert inbox_identity("", "ü" * 500) == ("", "ü" * 500)
    assert inbox_identity("", "ü" * 501)[1].startswith("ü" * 40 + "… sha256:")


def test_a_record_that_is_no_event_goes_by_its_place() -> None:
    assert record_identity("shop.orders", 3, 42) == ("surefoot:record", "shop.orders/3/42")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"order-1", "order-1"), ("größe".encode(), "größe"), (b"", ""), (b"\xff\x00", "\\xff00"), (b"a\x00", "\\x6100")],
)
def test_a_key_is_the_records_own_as_text(raw: bytes, expected: str) -> None:
    assert ordering_key(raw, "unused") == expected


def test_without_a_key_something_else_stands_in() -> None:
    assert ordering_key(None, "event-1") == "event-1"


def test_long_keys_are_hashed_whole() -> None:
    assert ordering_key(b"k" * 500, "") == "k" * 500
    one, other = ordering_key(b"k" * 501, ""), ordering_key(b"k" * 502, "")
    assert one.startswith("k" * 40 + "… sha256:")
    assert one != other
    assert ordering_key(None, "k" * 501) == one
    assert ordering_key(b"\xff" * 501, "").startswith("\\x" + "ff" * 19 + "… sha256:")

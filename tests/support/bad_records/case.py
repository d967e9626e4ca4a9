"""A bad record with what is to be said of it, and the good records that bad ones are bent from.

The good ones are written out by hand, too: made by our own encoder, they would prove only that it agrees with itself.
Each case has an id and a key of its own (its name), so that a consumer may be given all of them at once: none is a
duplicate of another, and none waits behind another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from surefoot.events.binding import BadRecordReason
from surefoot.log.port import Record

Header = tuple[str, bytes | None]

HAPPENED = b'{"thing_id":"t-1","number":7,"note":"n"}'
PAID = b'{"thing_id":"t-1","price":{"minor_units":1999,"currency":"EUR"}}'
STRUCTURED = b"application/cloudevents+json"


@dataclass(frozen=True, slots=True)
class BadCase:
    name: str
    reason: BadRecordReason
    record: Record
    identified: bool
    """Whether id, source and type can be read, so that the consumer knows which event it cannot take."""


def good_headers(name: str, type_name: str = "thing.happened") -> dict[str, bytes]:
    """The headers of a good event in binary mode."""
    return {
        "ce_specversion": b"1.0",
        "ce_id": name.encode(),
        "ce_source": b"/tests",
        "ce_type": type_name.encode(),
        "ce_time": b"2026-01-31T12:00:00.000000Z",
        "ce_dataschema": f"urn:surefoot:{type_name}:1".encode(),
        "ce_partitionkey": name.encode(),
        "content-type": b"application/json",
    }


def good_members(name: str, type_name: str = "thing.happened", data: str = HAPPENED.decode()) -> dict[str, str]:
    """The members of a good event in structured mode, each as its JSON text."""
    return {
        "specversion": '"1.0"',
        "id": f'"{name}"',
        "source": '"/tests"',
        "type": f'"{type_name}"',
        "time": '"2026-01-31T12:00:00.000000Z"',
        "dataschema": f'"urn:surefoot:{type_name}:1"',
        "partitionkey": f'"{name}"',
        "datacontenttype": '"application/json"',
        "data": data,
    }


def good_binary(name: str) -> Record:
    return Record(name.encode(), HAPPENED, tuple(good_headers(name).items()))


def good_binary_paid(name: str) -> Record:
    return Record(name.encode(), PAID, tuple(good_headers(name, "thing.paid").items()))


def good_structured(name: str) -> Record:
    return Record(name.encode(), json_object(good_members(name)), (("content-type", STRUCTURED),))


def good_structured_paid(name: str) -> Record:
    value = json_object(good_members(name, "thing.paid", PAID.decode()))
    return Record(name.encode(), value, (("content-type", STRUCTURED),))


def json_object(members: Mapping[str, str], *more: str) -> bytes:
    """An object of members whose values are JSON texts; `more` are whole members, as they are."""
    texts = [f'"{member}":{text}' for member, text in members.items()]
    return ("{" + ",".join([*texts, *more]) + "}").encode()


def unreadable(name: str, reason: BadRecordReason, value: bytes | None, *headers: Header) -> BadCase:
    """A record that is nothing but these headers and this value: nobody knows which event it is."""
    return BadCase(name, reason, Record(name.encode(), value, headers), identified=False)


def binary(
    name: str,
    reason: BadRecordReason,
    *more: Header,
    without: str = "",
    content_type: bytes = b"application/json",
    value: bytes | None = HAPPENED,
    **changed: bytes,
) -> BadCase:
    """A good record in binary mode with a header left out, attributes changed, or headers put behind the others."""
    headers = good_headers(name) | {f"ce_{attribute}": raw for attribute, raw in changed.items()}
    headers["content-type"] = content_type
    kept = (header for header in headers.items() if header[0] != without)
    return unreadable(name, reason, value, *kept, *more)


def structured(
    name: str,
    reason: BadRecordReason,
    *more: str,
    without: str = "",
    content_type: bytes = STRUCTURED,
    **changed: str,
) -> BadCase:
    """A good record in structured mode with a member left out, changed, or put behind the others; all as JSON text."""
    members = good_members(name) | changed
    members.pop(without, None)
    return unreadable(name, reason, json_object(members, *more), ("content-type", content_type))


def with_data(name: str, reason: BadRecordReason, value: bytes | None) -> BadCase:
    """A thing.happened event in binary mode whose envelope is good, and whose data are these."""
    return identified(binary(name, reason, value=value))


def with_paid_data(name: str, reason: BadRecordReason, value: bytes) -> BadCase:
    """The same for thing.paid, which has money in it."""
    headers = good_headers(name, "thing.paid").items()
    return identified(unreadable(name, reason, value, *headers))


def identified(case: BadCase) -> BadCase:
    """The same record, whose envelope is good: it is known which event it is."""
    return replace(case, identified=True)


def keyed(case: BadCase, key: bytes | None) -> BadCase:
    """The same record under another key."""
    return replace(case, record=case.record._replace(key=key))

"""Whom a record concerns that has not been decided on, read from what is stored of it. Pure.

A reply names the command it answers. What a saga waits for names what it is about: by its key, or by a member of its
data, whatever its key is. Where that cannot be read it may be about any saga at that wait, so it concerns all of them.
"""

import base64
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from surefoot.events import BadRecord, Envelope, decode, event_type_of, to_event
from surefoot.orchestrator.registry import Awaits, Registry, entity_of

Headers = Sequence[tuple[str, bytes | None]]
AtWait = tuple[str, str]
"""A saga's type, and the name of a wait of it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record, as a table has it."""

    key: str
    event_type: str | None
    headers: Headers
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Concerned:
    cause: str | None
    """The command that it answers."""
    entities: frozenset[str]
    waits: frozenset[AtWait]
    """Where it may be about anybody."""


def concerned(registry: Registry, one: Stored) -> Concerned:
    entities, waits = {one.key}, set[AtWait]()
    for awaits in registry.awaiting(one.event_type):
        try:
            entities.update(_entities(awaits, one))
        except BadRecord:
            waits.add((awaits.saga_type, awaits.wait.name))
    return Concerned(cause_of(one.headers, one.value), frozenset(entities), frozenset(waits))


def _entities(awaits: Awaits, one: Stored) -> Iterator[str]:
    """What it is about; nothing, if it leaves that open. Raises BadRecord if nobody can tell."""
    envelope = decode(one.headers, one.value, one.key.encode())
    for reply in awaits.wait.done_on:
        with contextlib.suppress(BadRecord):
            entity = entity_of(awaits.wait.entity, to_event(envelope, event_type_of(reply)))
            if entity is not None:
                yield entity
            return
    if awaits.wait.entity is not None:  # else it is about its key
        yield _member(awaits.wait.entity, envelope)


def _member(name: str, envelope: Envelope) -> str:
    """Of data that do not fit their declaration, and may say what they are about all the same."""
    with contextlib.suppress(ValueError):
        data = orjson.loads(envelope.data or b"")
        if isinstance(data, dict) and isinstance(data.get(name), str):
            return str(data[name])
    raise BadRecord("invalid_data", f"The event does not say what it is about: {name} cannot be read.")


def cause_of(headers: Headers, value: bytes | None) -> str | None:
    """The causation id of a record: among its headers or, where the whole event is in the body, there."""
    found = {name.lower(): raw for name, raw in headers if raw is not None}
    with contextlib.suppress(ValueError):
        if "ce_causationid" in found:
            return found["ce_causationid"].decode()
        kind = found.get("content-type", b"").decode().strip().lower()
        if kind.startswith("application/cloudevents"):
            event = orjson.loads(value or b"")
            return str(event["causationid"]) if isinstance(event, dict) and "causationid" in event else None
    return None


def parked_headers(stored: str) -> Headers:
    """As parked_events has them: [[name, value in Base64], …]."""
    return [(str(name), None if text is None else base64.b64decode(text)) for name, text in orjson.loads(stored)]


def outbox_headers(stored: str) -> Headers:
    """As outbox_events has them: [[name, value], …]."""
    return [(str(name), str(text).encode()) for name, text in orjson.loads(stored)]

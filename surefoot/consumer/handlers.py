"""What a consumer's handlers are, and what each is given. Frozen values.

`tx.session` is an ordinary SQLAlchemy session, except that it refuses commit, rollback and close: the transaction
belongs to the whole batch. Savepoints (`async with tx.session.begin_nested()`) are the handler's own. An outside call
is made under a key that is derived from its event, with what was prepared for it.

Also here: which event a record is, for the inbox, and what it waits behind. These texts become parts of index entries,
which Postgres limits to a third of a page: what is longer is replaced by its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import NAMESPACE_URL, uuid5

import orjson
from pydantic_core import PydanticSerializationError, to_json

from surefoot.consumer.failures import Permanent
from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData, EventType
from surefoot.events.event import Command

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


T = TypeVar("T", bound=EventData)


class Add(Protocol):
    """Adds an event to the outbox of the transaction."""

    def __call__(self, session: Any, what: Any, *, key: str | None, caused_by: Event[EventData]) -> Event[Any]: ...


@dataclass(frozen=True, slots=True)
class Transaction:
    session: AsyncSession
    add: Add
    event: Event[EventData] | None
    """The event that is being handled; None in a batch, where there are several."""
    command: Command | None = None
    """The saga's step, where the event is a command."""
    done: bool = False
    """In an undo: whether its do was carried out. Where it was not, or nobody knows, there may be nothing to undo."""

    def publish(self, data: T, *, key: str | None = None, caused_by: Event[EventData] | None = None) -> Event[T]:
        """Publish an event when, and only when, this transaction commits. It belongs to the flow of the event that is
        being handled; in a batch, say which one that is: `caused_by=event`."""
        cause = caused_by or self.event
        if cause is None:
            raise InvalidEvent(
                "In a batch, publish needs to know which event is the cause: say tx.publish(…, caused_by=event)."
            )
        return self.add(self.session, data, key=key, caused_by=cause)


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """What an outside call needs beside its event."""

    key: str
    """The same at every attempt and on every machine: give it to the provider as its idempotency key."""
    do_key: str
    """The key of the call that an undo undoes, so that the provider refuses it if it comes late. Else the same."""
    attempt: int
    prepared: Any
    """What `prepare` returned."""


Each = Callable[..., Awaitable[EventData | None]]
"""(event, tx): called for each event. A command's returns the reply."""
Whole = Callable[[Sequence[Event[Any]], Transaction], Awaitable[None]]
"""(events, tx): called with a run of events, of one type or of several."""
Call = Callable[..., Awaitable[Any]]
"""(event, call): called with no transaction open."""
Prepare = Callable[..., Awaitable[Any]]
"""(event, tx): runs once, before the call; what it returns is kept and given to the call."""
Finish = Callable[..., Awaitable[EventData | None]]
"""(event, tx, result): called with what the call returned."""


@dataclass(frozen=True, slots=True)
class EventHandler:
    event_type: EventType[Any]
    name: str
    function: Each


@dataclass(frozen=True, slots=True)
class BatchHandler:
    """One function may be in several of these, one for each type: what it is given together is told by the function."""

    event_type: EventType[Any]
    name: str
    function: Whole


@dataclass(frozen=True, slots=True)
class CommandHandler:
    """Its reply is kept, and given again to a repeated command."""

    event_type: EventType[Any]
    name: str
    function: Each


@dataclass(frozen=True, slots=True)
class OutsideHandler:
    """prepare in a transaction, call in none, finish in another."""

    event_type: EventType[Any]
    name: str
    call: Call
    finish: Finish
    prepare: Prepare | None
    command: bool


Handler = EventHandler | BatchHandler | CommandHandler | OutsideHandler
Events = Sequence[Any]


def same_function(one: Handler | None, other: Handler | None) -> bool:
    """Whether both are batch handlers that give their events to one function, so that a run may have both's."""
    # Equal, not identical: each look at an object's method makes a new one.
    return isinstance(one, BatchHandler) and isinstance(other, BatchHandler) and one.function == other.function


def is_for_commands(handler: Handler) -> bool:
    return isinstance(handler, CommandHandler) or (isinstance(handler, OutsideHandler) and handler.command)


def call_keys(consumer: str, event: Event[Any], command: Command | None) -> tuple[str, str]:
    """The key of a call, and of the call that it undoes. They depend on the event or, for a command, on the saga's
    step, and not on the attempt or the machine: the provider sees at once that it has seen them before."""
    if command is None:
        key = _uuid("event", consumer, *inbox_identity(event.source, event.id))
        return key, key
    step = (command.saga_id, command.step)
    return _uuid("command", *step, command.direction), _uuid("command", *step, "do")


def prepared_json(given: object, prepare: Prepare) -> str:
    """What `prepare` returned, as it is kept."""
    try:
        kept = to_json(given)
        orjson.loads(kept)  # NaN and Infinity: Postgres would refuse them, and the error would be nobody's
        return kept.decode()
    except (PydanticSerializationError, orjson.JSONDecodeError):
        name = getattr(prepare, "__name__", repr(prepare))
        raise Permanent(
            f"{name} returned a {type(given).__name__}, which cannot be kept as JSON until the call is made: return a "
            "dict, a list, a text, a number, a pydantic model, or None."
        ) from None


def _uuid(*names: str) -> str:
    return str(uuid5(NAMESPACE_URL, ":".join(("surefoot", *names))))


MAX_ID_BYTES = 1000
MAX_KEY_BYTES = 500
RECORD_SOURCE = "surefoot:record"
"""The source in the inbox of a record that is no event: its id is its place in the log."""


def inbox_identity(source: str, event_id: str) -> tuple[str, str]:
    """Source and id as the inbox keeps them."""
    if _fits(source + event_id, MAX_ID_BYTES):
        return source, event_id
    return _hashed(source.encode(), source), _hashed(event_id.encode(), event_id)


def record_identity(topic: str, partition: int, offset: int) -> tuple[str, str]:
    return RECORD_SOURCE, f"{topic}/{partition}/{offset}"


def ordering_key(record_key: bytes | None, otherwise: str) -> str:
    """What the record waits behind: the bytes that chose its partition, as text; or what stands in for them."""
    if record_key is None:
        return otherwise if _fits(otherwise, MAX_KEY_BYTES) else _hashed(otherwise.encode(), otherwise)
    try:
        text = record_key.decode("utf-8")
    except UnicodeDecodeError:
        text = "\\x" + record_key.hex()
    if "\x00" in text:
        text = "\\x" + record_key.hex()
    return text if len(record_key) <= MAX_KEY_BYTES else _hashed(record_key, text)


def _fits(text: str, limit: int) -> bool:
    # No character takes more than four bytes, so most texts need not be encoded to know.
    return len(text) <= limit // 4 or len(text.encode()) <= limit


def _hashed(raw: bytes, text: str) -> str:
    return f"{text[:40]}… sha256:{hashlib.sha256(raw).hexdigest()}"

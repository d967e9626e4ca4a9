"""What a consumer's handlers are: frozen values, one for each event type they are for."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.consumer.transaction import Transaction
from surefoot.events import Event, EventData, EventType

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

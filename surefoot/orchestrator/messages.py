"""What the engine's decisions become: commands and events with their data. Pure.

A definition's functions make the data from the saga's context and from the results of its steps.
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData, new_event
from surefoot.events.commands import Command
from surefoot.saga import Definition, Instance
from surefoot.saga.binding import call, parse_result
from surefoot.saga.decision import Send, Tell
from surefoot.saga.definition import Branch, Make, Step, Wait


class Results(Mapping[str, EventData | None]):
    """The results of a saga's steps, each read from its JSON when it is asked for."""

    def __init__(self, definition: Definition, instance: Instance) -> None:
        self._definition = definition
        self._instance = instance

    def __getitem__(self, step: str) -> EventData | None:
        record = self._instance.record(step)
        if record is None:
            raise KeyError(step)
        node = self._definition.parts[step]
        assert isinstance(node, Step | Wait)
        return parse_result(node, record.result)

    def __iter__(self) -> Iterator[str]:
        return (record.name for record in self._instance.trail)

    def __len__(self) -> int:
        return len(self._instance.trail)


def made(definition: Definition, make: Make, context: BaseModel, instance: Instance) -> EventData:
    data = call(make, context, tuple(definition.parts.values()), Results(definition, instance))
    if not isinstance(data, EventData):
        name = getattr(make, "__name__", repr(make))
        raise InvalidEvent(
            f"{name} of the saga {definition.name} returned a {type(data).__name__}: return data of a declared event."
        )
    return data


def command(
    definition: Definition,
    context: BaseModel,
    instance: Instance,
    send: Send,
    *,
    saga_id: str,
    correlation_id: str,
    cause: Event[EventData] | None,
) -> Event[EventData]:
    """An attempt of a step: an event with an id of its own, under the saga's key."""
    step = definition.step(send.step)
    make = step.do if send.direction == "do" else step.undo
    assert make is not None
    return new_event(
        made(definition, make, context, instance),
        key=saga_id,
        correlation_id=correlation_id,
        caused_by=cause,
        extensions=Command(saga_id, send.step, send.direction, send.attempt).extensions(),
    )


def told(
    definition: Definition,
    context: BaseModel,
    instance: Instance,
    tell: Tell,
    *,
    correlation_id: str,
    cause: Event[EventData] | None,
) -> Event[EventData]:
    if tell.step is not None:
        wait = definition.parts[tell.step]
        assert isinstance(wait, Wait)
        make = wait.tell
    else:
        assert tell.status is not None
        make = definition.tells[tell.status]
    assert make is not None
    return new_event(made(definition, make, context, instance), correlation_id=correlation_id, caused_by=cause)


def chosen(definition: Definition, context: BaseModel, branch: Branch, instance: Instance) -> str:
    return str(call(branch.by, context, tuple(definition.parts.values()), Results(definition, instance)))

"""The sagas of one transaction: loaded, decided on, and what has to be written. No I/O.

Several stimuli of one saga may come in a batch; each is decided on what the one before has left. What the engine
decides becomes commands and events: a definition's functions make their data from the saga's context and from the
results of its steps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData, new_event
from surefoot.events.event import Command
from surefoot.saga import Definition, Instance, Status
from surefoot.saga.decision import Decision, Send, Tell
from surefoot.saga.definition import Branch, Make, Step, Wait, call, parse_result
from surefoot.saga.engine import begin, decide
from surefoot.saga.instance import ENDED, Timer
from surefoot.saga.stimulus import Stimulus
from surefoot.saga.turn import Chooser


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


Clock = Literal["kept", "set", "gone"]


@dataclass(slots=True)
class Loaded:
    """A saga in hand, locked by our transaction."""

    saga_id: str
    definition: Definition
    entity_id: str
    start_event_id: str
    correlation_id: str
    context: Mapping[str, Any]
    instance: Instance
    version: int
    """As it is stored; 0 for one that begins."""
    reason: str | None = None
    status_before: Status | None = None
    """As it is stored; None for one that begins."""
    is_changed: bool = False
    clock: Clock = "kept"
    timer: Timer | None = None
    """To be set, if the clock is."""
    command_id: str | None = None
    """The command that the timer to be set belongs to."""
    _model: BaseModel | None = None

    @property
    def model(self) -> BaseModel:
        if self._model is None:
            self._model = self.definition.context.model_validate(self.context)
        return self._model

    def choose(self) -> Chooser:
        return lambda branch, instance: chosen(self.definition, self.model, branch, instance)

    @property
    def current(self) -> tuple[str | None, str | None]:
        awaited = self.instance.awaited
        return (None, None) if awaited is None else (awaited[0].name, awaited[1])

    @property
    def has_ended(self) -> bool:
        return self.instance.status in ENDED


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the history."""

    saga_id: str
    kind: str
    step: str | None
    direction: str | None
    attempt: int | None
    sentence: str | None
    before: str
    after: str
    event_id: str | None


@dataclass(slots=True)
class Work:
    sagas: dict[str, Loaded] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    events: list[tuple[str, Event[EventData]]] = field(default_factory=list)
    """What to publish, and the saga that says it."""

    def begin(self, saga: Loaded, cause: Event[EventData]) -> None:
        self.sagas[saga.saga_id] = saga
        self._take(saga, begin(saga.definition, saga.choose()), cause, cause.id)

    def decide(self, saga: Loaded, stimulus: Stimulus, cause: Event[EventData] | None) -> None:
        decision = decide(saga.definition, saga.instance, stimulus, saga.choose())
        self._take(saga, decision, cause, None if cause is None else cause.id)

    def events_of(self, saga_id: str) -> list[Event[EventData]]:
        return [event for of, event in self.events if of == saga_id]

    def drop(self, saga_id: str) -> None:
        """It is somebody else's: forget what we decided for it."""
        del self.sagas[saga_id]
        self.lines = [line for line in self.lines if line.saga_id != saga_id]
        self.events = [pair for pair in self.events if pair[0] != saga_id]

    def _take(self, saga: Loaded, decision: Decision, cause: Event[EventData] | None, cause_id: str | None) -> None:
        # What is only noted and ignored leaves the row as it is: when it was last changed, or ended, is worth knowing.
        saga.is_changed = saga.is_changed or decision.instance != saga.instance or decision.arm is not None
        saga.instance = decision.instance
        about = (saga.definition, saga.model, saga.instance)
        sent: dict[tuple[str, str, int], str] = {}
        for send in decision.sends:
            event = command(*about, send, saga_id=saga.saga_id, correlation_id=saga.correlation_id, cause=cause)
            sent[send.step, send.direction, send.attempt] = event.id
            self.events.append((saga.saga_id, event))
        for tell in decision.tells:
            said = told(*about, tell, correlation_id=saga.correlation_id, cause=cause)
            self.events.append((saga.saga_id, said))
        for note in decision.notes:
            event_id = cause_id
            if note.kind == "SENT" and note.step and note.direction and note.attempt:
                event_id = sent.get((note.step, note.direction, note.attempt))
            if note.kind in ("COMPENSATING", "STUCK"):
                saga.reason = note.sentence
            self.lines.append(
                Line(
                    saga.saga_id,
                    note.kind,
                    note.step,
                    note.direction,
                    note.attempt,
                    note.sentence or None,
                    note.before,
                    note.after,
                    event_id,
                )
            )
        if decision.arm is not None:
            timer = saga.timer = decision.arm
            saga.clock = "set"
            saga.command_id = sent.get((timer.step, timer.direction, timer.attempt))
        elif decision.instance.timer is None:
            saga.clock = "gone"

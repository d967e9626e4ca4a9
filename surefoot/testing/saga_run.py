"""One saga that runs in a test: the real engine and the definition's own functions, with nothing around them.

What would be stored between two decisions goes through JSON and back here too, so that a context or a result which does
not survive it is noticed in the test.
"""

import json
from dataclasses import dataclass
from typing import Any

from surefoot.events import EventData, event_type_of, new_event
from surefoot.events.event import Direction
from surefoot.saga import Definition, Instance, begin, decide
from surefoot.saga.decision import Decision, Note, Send, Tell
from surefoot.saga.definition import Branch, Make, Step, Wait, call, name_of, parse_result
from surefoot.saga.instance import from_json, to_json
from surefoot.saga.stimulus import Stimulus
from surefoot.testing.consumer_records import KitMisuse


@dataclass(frozen=True, slots=True)
class SentCommand:
    step: str
    direction: Direction
    attempt: int
    command: EventData


class Run:
    def __init__(self, definition: Definition, data: EventData) -> None:
        self.definition = definition
        self.entity = entity_of(data, definition.entity)
        context = definition.begin(data)
        self._context = type(context).model_validate_json(context.model_dump_json())
        self.history: list[Note] = []
        self.sent: list[SentCommand] = []
        """By the last decision."""
        self.told: list[EventData] = []
        """By the last decision."""
        self.saga = Instance()
        self._carry_out(begin(definition, self._choose))

    def take(self, stimulus: Stimulus) -> None:
        self._carry_out(decide(self.definition, self.saga, stimulus, self._choose))

    def _carry_out(self, decision: Decision) -> None:
        self.saga = from_json(json.loads(json.dumps(to_json(decision.instance))))
        self.history += decision.notes
        self.sent = [self._command(send) for send in decision.sends]
        self.told = [self._event(tell) for tell in decision.tells]

    def _command(self, send: Send) -> SentCommand:
        step = self.definition.step(send.step)
        make = step.do if send.direction == "do" else step.undo
        assert make is not None
        return SentCommand(send.step, send.direction, send.attempt, self._made(make))

    def _event(self, tell: Tell) -> EventData:
        if tell.status is not None:
            return self._made(self.definition.tells[tell.status])
        assert tell.step is not None
        wait = self.definition.parts[tell.step]
        assert isinstance(wait, Wait)
        assert wait.tell is not None
        return self._made(wait.tell)

    def _made(self, make: Make) -> EventData:
        made = self._called(make, self.saga)
        if not isinstance(made, EventData):
            raise KitMisuse(
                f"{name_of(make)} returned {made!r}, which cannot be sent: it must return the data of a declared event."
            )
        event_type_of(made)
        return new_event(made).data

    def _choose(self, branch: Branch, saga: Instance) -> str:
        return str(self._called(branch.by, saga))

    def _called(self, function: Any, saga: Instance) -> Any:
        results = {}
        for record in saga.trail:
            node = self.definition.parts[record.name]
            if isinstance(node, Step | Wait):
                results[record.name] = parse_result(node, record.result)
        return call(function, self._context, tuple(self.definition.parts.values()), results)


def entity_of(data: EventData, member: str | None) -> str:
    """What the event is about: the member that is said to name it, or else its key."""
    return str(getattr(data, member)) if member is not None else new_event(data).key

"""What is written when an event is given up: the letter to the dead-letter topic and, for a command, the reply that it
failed with an unknown outcome. Pure, but for the clock and the letter's id."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from uuid_utils import uuid7

from surefoot.consumer import Consumer
from surefoot.consumer.contracts import CommandFailed
from surefoot.consumer.dead_letter import Dead, Diagnosis, letter
from surefoot.consumer.handlers import is_for_commands
from surefoot.consumer_runtime.plan import Bad, Delivery
from surefoot.errors import InvalidEvent
from surefoot.events import Event, Topic, new_event
from surefoot.events.event import Command, command_of
from surefoot.outbox.entry import Entry, entry_of


class Deaths:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._topics: Mapping[str, Topic] = {topic.name: topic for topic in consumer.topics}

    def holds(self, what: Delivery | Bad) -> bool:
        """Whether the later events of its key wait for what an operator decides. A dead command lets them go on: its
        own undo is among them."""
        if isinstance(what, Bad):
            return what.identified and self._consumer.when_dead == "hold"
        return self._consumer.when_dead == "hold" and not is_command(what)

    def entries(
        self,
        what: Delivery | Bad,
        diagnosis: Diagnosis,
        *,
        failures: tuple[tuple[str, str], ...] = (),
        attempts: int = 0,
        replays: int = 0,
    ) -> list[Entry]:
        dead = Dead(
            consumer=self._consumer.name,
            record=what.record,
            key=what.key,
            source=what.source,
            event_id=what.event_id,
            event_type=what.event_type if isinstance(what, Bad) else what.event.type,
            correlation_id=what.correlation_id if isinstance(what, Bad) else what.event.correlation_id,
            diagnosis=diagnosis,
            failures=failures,
            attempts=attempts,
            replays=replays,
            held=self.holds(what),
        )
        limit = self._topics[what.record.topic].dead_letters.max_record_bytes
        written = [letter(dead, letter_id=str(uuid7()), now=datetime.now(UTC), max_bytes=limit)]
        command = None if isinstance(what, Bad) else _command(what)
        if command is not None and isinstance(what, Delivery):
            written.append(self._failed(what.event, command, diagnosis))
        return written

    def _failed(self, event: Event[Any], command: Command, diagnosis: Diagnosis) -> Entry:
        reply = CommandFailed(
            saga_id=command.saga_id,
            step=command.step,
            direction=command.direction,
            attempt=command.attempt,
            consumer=self._consumer.name,
            reason=diagnosis.reason,
            error=diagnosis.error,
        )
        return entry_of(new_event(reply, caused_by=event))


def is_command(delivery: Delivery) -> bool:
    return is_for_commands(delivery.handler)


def _command(delivery: Delivery) -> Command | None:
    if not is_command(delivery):
        return None
    try:
        return command_of(delivery.event)
    except InvalidEvent:
        return None  # half of a command: nobody to answer

"""What the platform itself says in events: a command that died, an operator's decision, and what became of it.

Control records carry what an operator decided about a dead event to the one consumer it concerns. They travel on the
event's own topic and partition, as CloudEvents of type `dlq.control`. The header `surefoot-target` names the consumer;
all others skip them without looking inside.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from surefoot.events import Catalogue, EventData
from surefoot.events.text import has_forbidden

platform = Catalogue(source="/surefoot")
saga_replies = platform.topic("saga.replies", partitions=8)
dlq_outcomes = platform.topic("dlq.outcomes", partitions=8)

Answer = Literal[
    "done",
    "failed_again",
    "discarded",
    "inspected",
    "already_done",
    "already_settled",
    "not_dead",
    "unknown",
    "refused",
]


@platform.event("command.failed", topic=saga_replies, key="saga_id")
class CommandFailed(EventData):
    """A command is out of attempts, and nobody knows whether it had its effect. It may still be replayed."""

    saga_id: str
    step: str
    direction: Literal["do", "undo"]
    attempt: int
    consumer: str
    reason: str = Field(description="The word under which it is dead.")
    error: str = Field(description="A sentence.")


@platform.event("dlq.outcome", topic=dlq_outcomes, key="event_id")
class ControlOutcome(EventData):
    """What a consumer did when a control record told it to replay, discard, supersede or inspect a dead event."""

    control_id: str
    action: Literal["replay", "discard", "supersede", "inspect"]
    consumer: str
    source: str
    event_id: str
    answer: Answer
    sentence: str
    state: str | None = Field(default=None, description="WAITING, DUE, CALLING or DEAD, if it is parked.")
    outcome: str | None = Field(default=None, description="What the inbox says; null if it knows nothing of it.")
    waiting_behind: int = Field(default=0, description="Later events of its key that wait for it.")
    past_retention: bool = Field(default=False, description="The inbox may have forgotten it: it could run twice.")


CONTROL_TYPE = "dlq.control"
TARGET_HEADER = "surefoot-target"
MAX_NAME = 1200
Action = Literal["replay", "discard", "supersede", "inspect"]


class Replacement(BaseModel):
    """The edited event that takes a dead one's place: a whole record, its bytes in Base64."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    value: str | None
    headers: tuple[tuple[str, str], ...]

    @field_validator("value")
    @classmethod
    def _is_base64(cls, value: str | None) -> str | None:
        _decoded(value or "")
        return value

    @field_validator("headers")
    @classmethod
    def _are_base64(cls, headers: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        for _, value in headers:
            _decoded(value)
        return headers

    def value_bytes(self) -> bytes | None:
        return None if self.value is None else _decoded(self.value)

    def header_bytes(self) -> tuple[tuple[str, bytes], ...]:
        return tuple((name, _decoded(value)) for name, value in self.headers)


class Control(BaseModel):
    """The data of a control record. `source` and `event_id` are as the inbox has them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    action: Action
    consumer: str
    source: str = Field(min_length=1, max_length=MAX_NAME)
    event_id: str = Field(min_length=1, max_length=MAX_NAME)
    by: str = Field(min_length=1, description="Who decided it.")
    why: str = Field(min_length=1)
    replacement: Replacement | None = None

    @field_validator("source", "event_id")
    @classmethod
    def _can_be_a_name(cls, name: str) -> str:
        if has_forbidden(name):
            raise ValueError("has a control character")
        return name


def target_of(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    """The consumer a control record is for."""
    found = next((value for name, value in headers if name == TARGET_HEADER), None)
    return None if found is None else found.decode("utf-8", errors="replace")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not Base64") from None

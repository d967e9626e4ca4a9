"""What the platform itself says in events: a command that died, and what became of a control record."""

from typing import Literal

from pydantic import Field

from surefoot.events import Catalogue, EventData

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

"""What is shown of a saga: one shape for `--json` and for the read API. Frozen values, made from the tables alone."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from surefoot.events.event import Direction
from surefoot.saga.instance import Status, StepState, TimerKind


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


class SagaLine(View):
    """A saga in a list."""

    saga_id: UUID
    saga_type: str
    definition_version: int = Field(description="It ends on the version it began with.")
    entity_id: str = Field(description="What it is about: an order, a return.")
    correlation_id: str = Field(description="The flow it belongs to.")
    status: Status
    current_step: str | None = Field(description="Whose answer it waits for; null when it has ended.")
    current_direction: Direction | None
    reason: str | None = Field(description="Why it was last being undone, or stuck; it stays when the saga goes on.")
    version: int = Field(description="Rises with every decision.")
    created_at: datetime
    updated_at: datetime = Field(description="When it was last decided on.")
    ended_at: datetime | None


class StepLine(View):
    """A step that the saga has entered."""

    name: str
    state: StepState
    attempt: int = Field(description="How often its do was sent; of a wait, how often an operator had it wait again.")
    limit: int = Field(description="Attempts that it has.")
    undo_attempt: int
    undo_limit: int
    result: Any = Field(description="What its reply brought along: {type, version, data}; null if nothing.")


class TimerLine(View):
    """The clock that runs. When it is over, it counts only if nothing was away meanwhile."""

    step: str
    direction: Direction
    attempt: int
    kind: TimerKind = Field(description="An answer is late, the next attempt is due, a wait is over.")
    fires_at: datetime
    command_id: UUID | None
    command_status: str | None = Field(description="Of the command in the outbox; null if it is not there any more.")


class HeldLine(View):
    """What came while the saga was paused; it acts when the saga is resumed."""

    step: str
    answer: str = Field(description="done, refused or failed; arrived for what a wait is for.")
    event_id: str


class SagaView(SagaLine):
    """A saga as it stands."""

    start_event_id: str
    context: dict[str, Any] = Field(description="What it was started with.")
    steps: tuple[StepLine, ...] = Field(description="Those it has entered, in that order.")
    choices: dict[str, str] = Field(description="The path taken at each branch.")
    arrived: tuple[str, ...] = Field(description="Waits whose event has come before the saga has reached them.")
    held: tuple[HeldLine, ...]
    before_pause: Status | None
    timer: TimerLine | None
    seen_at: datetime = Field(description="When this was read, by the database's clock.")


class HistoryLine(View):
    """One thing that happened to a saga."""

    id: int
    at: datetime
    kind: str
    step: str | None
    direction: Direction | None
    attempt: int | None
    sentence: str | None
    before: Status
    after: Status
    event_id: str | None = Field(description="The command that was sent, or the event that had this consequence.")


class ParkedLine(View):
    """An event of this saga that waits, or is dead, in front of a consumer of this database."""

    consumer: str
    topic: str
    partition: int
    log_offset: int
    key: str
    event_id: str
    event_type: str | None
    state: Literal["WAITING", "DUE", "CALLING", "DEAD"]
    holds: bool
    attempts: int
    last_error: str | None
    due_in_s: float | None
    parked_at: datetime


class StepCount(View):
    """Sagas under way that wait for the same."""

    saga_type: str
    definition_version: int
    status: Status
    current_step: str | None
    current_direction: Direction | None
    sagas: int
    longest_unchanged_since: datetime

"""What is shown of dead letters: one shape for the API, the terminal and exports. Frozen values.

Personal data are masked in all of them but `Revealed`.
"""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from surefoot.dlq.letters.filters import Status
from surefoot.dlq.letters.masking import PayloadForm


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


class Counts(View):
    """How many letters of a group are in each status."""

    open: int
    replaying: int
    replayed: int
    discard_requested: int
    discarded: int
    superseded: int


class Group(View):
    """Dead letters with one cause. Its counts are of the whole group, whatever it was found by."""

    fingerprint: str
    consumer: str = Field(description="Who gave up; empty where the letter could not be read.")
    event_type: str | None = Field(description="null where the records are no events.")
    reason: str = Field(description="Why the latest is dead, in a word.")
    error_type: str
    sentence: str = Field(description="The latest error.")
    first_at: datetime = Field(description="When the first of them died.")
    last_at: datetime = Field(description="When the latest of them died.")
    total: int
    counts: Counts


class GroupPage(View):
    """Groups, the latest to begin first."""

    groups: list[Group]
    next: str | None = Field(description="Ask for the next page with this as `after`; null on the last one.")


class EventLine(View):
    """A dead letter in a list."""

    id: UUID
    consumer: str = Field(description="Who gave up on it; empty where the letter could not be read.")
    source: str
    event_id: str
    event_type: str | None = Field(description="null where the record is no event.")
    topic: str
    partition: int
    log_offset: int
    key: str = Field(description="What it is ordered by.")
    correlation_id: str | None = Field(description="The flow it belongs to.")
    saga_id: str | None
    fingerprint: str = Field(description="Its group.")
    reason: str = Field(description="Why it is dead, in a word.")
    error_type: str
    error: str = Field(description="A sentence.")
    attempts: int
    replays: int = Field(description="How often the consumer has tried it again when it was dead.")
    deaths: int = Field(description="How often it came here.")
    held: bool = Field(description="Later events of its key wait for it.")
    first_failed_at: datetime
    failed_at: datetime = Field(description="When it died last.")
    status: Status
    job_id: UUID | None = Field(description="The job that has it in hand, or had it last.")
    resolution: str | None = Field(description="What became of it, who decided it and why.")
    resolved_at: datetime | None
    superseded_by: str | None = Field(description="The id of the edited event.")


class EventPage(View):
    """Dead letters, newest first."""

    events: list[EventLine]
    next: str | None = Field(description="Ask for the next page with this as `after`; null on the last one.")


class Failure(View):
    """An attempt that failed."""

    at: str
    error: str


class SagaLink(View):
    """The saga that it belongs to, if the sagas are in this database."""

    saga_id: UUID
    saga_type: str
    entity_id: str
    status: str
    current_step: str | None


class WaitingLine(View):
    """An event that waits behind the dead one."""

    event_id: str
    event_type: str | None
    log_offset: int
    parked_at: datetime


class Waiting(View):
    """What waits behind it on its key."""

    known_from: Literal["consumer", "inspect"] = Field(
        description="From the consumer's own tables, as of now; or from its latest answer."
    )
    at: datetime
    count: int
    is_more: bool = Field(description="There are more than were counted.")
    first: list[WaitingLine] = Field(description="The next in line; empty where only their number is known.")


class ItsJob(View):
    """A job that the letter is or was in."""

    job_id: UUID
    kind: str
    status: str
    created_by: str
    reason: str
    created_at: datetime
    state: str = Field(description="Of this letter in it: PENDING, SENT, ANSWERED or CANCELLED.")
    answer: str | None = Field(description="What the consumer said, in a word.")
    sentence: str | None
    past_retention: bool | None
    answered_at: datetime | None


class ItsApproval(View):
    """A discard that was asked for it."""

    approval_id: UUID
    status: str
    reason: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    decision: str | None


class History(View):
    """What people have decided about it, the latest first."""

    jobs: list[ItsJob]
    approvals: list[ItsApproval]


class EventView(EventLine):
    """A dead letter as it stands, with personal data masked."""

    recorded_at: datetime = Field(description="The log's own time of the event.")
    received_at: datetime
    payload_form: PayloadForm = Field(description="other: it is no JSON, and shown to whoever may see it all.")
    payload: Any = Field(description="The event's data as JSON, personal ones as •••.")
    value_bytes: int | None = Field(description="The size of the record's value; null if it has none.")
    headers: list[tuple[str, str | None]] = Field(
        description="The event's own, in order; what is no attribute, as •••."
    )
    headers_left_out: int = Field(description="How many did not fit into the letter.")
    failures: list[Failure] = Field(description="The latest attempts.")
    stack: str
    saga: SagaLink | None
    flow: list[EventLine] = Field(description="Other dead letters of its flow, newest first; up to 20.")
    waiting: Waiting | None = Field(description="null where nobody knows: its consumer is elsewhere; inspect it.")
    history: History


class Revealed(View):
    """All of a dead letter's record, as it is. Whoever asked for it is recorded."""

    id: UUID
    event_id: str
    event_type: str | None
    payload_form: PayloadForm
    payload: Any
    headers: list[tuple[str, str | None]]
    record_key_base64: str | None
    value_base64: str | None
    headers_base64: list[tuple[str, str | None]]

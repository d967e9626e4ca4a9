"""What is shown of jobs and approvals: one shape for the API and the terminal. Frozen values."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from surefoot.consumer.contracts import Action, Answer
from surefoot.dlq.jobs.policy import CountsAs, JobStatus
from surefoot.dlq.letters.views import View

ItemState = Literal["PENDING", "SENT", "ANSWERED", "CANCELLED"]
ApprovalStatus = Literal["WAITING", "APPROVED", "REFUSED", "EXPIRED"]
WhyLeftOut = Literal[
    "no_such_letter", "unreadable", "replaying", "replayed", "discard_requested", "discarded", "superseded"
]
"""Why a dead letter that was asked for is not in a set: there is none, nobody can be told of it, or its status."""


class LeftOut(View):
    """Dead letters that were asked for and are not in the set."""

    why: WhyLeftOut
    many: int


class JobMade(View):
    """A job that was made just now."""

    job_id: UUID
    kind: Action
    total: int = Field(description="Dead letters in its set, which never changes.")
    left_out: tuple[LeftOut, ...] = Field(default=(), description="What was asked for and is not in the set, and why.")


class JobLine(View):
    """A job in a list."""

    id: UUID
    kind: Action = Field(description="What its control records say; inspect is a dry run.")
    status: JobStatus
    reason: str
    created_by: str
    created_at: datetime
    total: int
    canary: int
    rate: float | None
    stop_on_error_rate: float | None
    note: str | None = Field(description="A sentence: why it is paused, or how it ended.")
    ended_at: datetime | None
    approval_id: UUID | None


class JobView(JobLine):
    """A job, and how far it is. `pending`, `sent`, `ok`, `failed` and `cancelled` add up to its total."""

    pending: int
    sent: int = Field(description="Sent, and not answered yet.")
    answered: int
    cancelled: int
    ok: int
    failed: int
    answers: dict[str, int] = Field(description="How many there are of each answer.")
    waiting_behind: int = Field(description="Later events that wait behind those of the set, by the answers so far.")
    past_retention: int = Field(description="Those of which the consumer may have forgotten whether they had effect.")


class JobPage(View):
    jobs: tuple[JobLine, ...]
    next: str | None


class ItemView(View):
    """A dead letter in a job."""

    number: int
    dlq_id: UUID
    consumer: str | None = Field(description="Null where the letter is gone: past its retention.")
    event_id: str | None
    state: ItemState
    sends: int
    sent_at: datetime | None
    answer: Answer | None
    sentence: str | None
    counts_as: CountsAs | None
    waiting_behind: int | None
    past_retention: bool | None
    answered_at: datetime | None


class ItemPage(View):
    items: tuple[ItemView, ...]
    next: int | None


class ApprovalView(View):
    """A discard that waits for a second person, or did."""

    id: UUID
    status: ApprovalStatus
    reason: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    total: int
    set_hash: str = Field(description="Over the set as the requester saw it: who approves it must quote it.")
    decided_by: str | None
    decided_at: datetime | None
    decision: str | None = Field(description="What the second person said.")
    job_id: UUID | None = Field(description="The job that carries it out.")
    left_out: tuple[LeftOut, ...] = Field(default=(), description="Told when it is made: what is not in the set.")


class AskedLetter(View):
    """A dead letter that somebody asks to discard, as whoever has to approve it needs to know it."""

    dlq_id: UUID
    consumer: str
    event_type: str | None
    key: str
    reason: str = Field(description="Why it is dead, in a word.")
    error: str
    deaths: int
    held: bool = Field(description="Later events of its key wait for it.")
    status: str
    failed_at: datetime


class AskedLetterPage(View):
    letters: tuple[AskedLetter, ...]
    next: str | None


class ApprovalPage(View):
    approvals: tuple[ApprovalView, ...]
    next: str | None

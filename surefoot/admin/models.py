"""What is asked of the admin service. A member that is not known is refused: `role` is none."""

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from surefoot.dlq.jobs.request import MAX_REASON, Ids, Matching, Wanted
from surefoot.dlq.letters.filters import MOST_TEXT, Filter
from surefoot.dlq.letters.looking import MOST

LONGEST_CURSOR = 300
Why = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_REASON),
    Field(description="Why, in a sentence that others will understand later."),
]
OneId = Annotated[str, StringConstraints(min_length=1, max_length=MOST_TEXT)]
Limit = Annotated[int, Field(ge=1, le=MOST, description="Most rows on the page.")]
After = Annotated[
    str | None, Field(max_length=LONGEST_CURSOR, description="Behind this place: `next` of the page before.")
]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AskedLetters(Filter):
    """What a page of groups or letters is asked for by."""

    after: After = None
    limit: Limit = 50

    def filter(self) -> Filter:
        return Filter.model_validate(self.model_dump(include=set(Filter.model_fields)))


class AskedExport(Filter):
    format: Literal["csv", "jsonl"] = Field("csv", description="A table, or a JSON object on each line.")

    def filter(self) -> Filter:
        return Filter.model_validate(self.model_dump(include=set(Filter.model_fields)))


class AskedPage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: UUID | None = Field(None, description="Behind this one: `next` of the page before.")
    limit: Limit = 50


class AskedRows(BaseModel):
    """A page of what is numbered."""

    model_config = ConfigDict(extra="forbid")

    after: int | None = Field(None, ge=0, lt=2**31, description="Behind this number: `next` of the page before.")
    limit: Limit = 100


class AskedNumbers(AskedRows):
    after: int | None = Field(None, ge=0, lt=2**63, description="Behind this number: `next` of the page before.")


class Reason(Body):
    reason: Why


class Meant(Body):
    """Which dead letters: by their ids or their events' ids, or by a filter. One of the two."""

    event_id: list[OneId] | None = Field(None, min_length=1, description="Ids of dead letters, or of their events.")
    filter: Filter | None = Field(
        None, description='The open ones that it matches, when it is asked; {"status": "OPEN"} are all.'
    )
    reason: Why

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.event_id is None) == (self.filter is None):
            raise ValueError("say which dead letters with event_id or with filter: one of the two")
        if self.filter is not None and self.filter == Filter():
            raise ValueError('a filter with nothing in it would mean all there are: {"status": "OPEN"} says so')
        return self

    def wanted(self) -> Wanted:
        if self.filter is not None:
            return Matching(self.filter)
        return Ids(frozenset(self.event_id or ()))


class Replay(Meant):
    dry_run: bool = Field(False, description="Ask the consumers how each stands, and change nothing.")
    canary: int = Field(0, ge=0, le=100_000, description="So many first; it goes on only if all of them go well.")
    rate: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False, description="So many a second at most.")
    stop_on_error_rate: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="It pauses when more than this share has failed."
    )


class Edit(Body):
    payload: Any = Field(description="The event's new data, as JSON.")
    reason: Why


class Approve(Body):
    set_hash: str = Field(pattern="^[0-9a-f]{64}$", description="As the approval shows it: exactly this set.")
    reason: Why

"""Which dead letters are meant: one filter for pages, jobs, discards and exports. Pure.

It is put into SQL for what is asked alone: only then are the indexes used. Its values are parameters, never text of the
statement.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

Status = Literal["OPEN", "REPLAYING", "REPLAYED", "DISCARD_REQUESTED", "DISCARDED", "SUPERSEDED"]
STATUSES: tuple[Status, ...] = get_args(Status)
MOST_TEXT = 2000


def _written_out(time: object) -> object:
    """Not a bare number, which would be taken for seconds since 1970."""
    if isinstance(time, datetime) or (isinstance(time, str) and re.match(r"\d{4}-\d\d-\d\d", time, re.ASCII)):
        return time
    raise ValueError("is no time such as 2026-11-16T12:00:00Z")


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999") from None


Text = Annotated[str, Field(max_length=MOST_TEXT)]
Time = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_in_utc)]


class Filter(BaseModel):
    """What is None does not matter; what is given must all hold. A name that is not known is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    consumer: Text | None = Field(None, description="Who gave up; empty for letters that could not be read.")
    event_type: Text | None = Field(None, description="Such as order.placed; empty for records that are no events.")
    error: Text | None = Field(None, description="The error's type: shop.errors.NoSuchArticle, or NoSuchArticle.")
    reason: Text | None = Field(None, description="Why they are dead, in a word: permanent, out_of_attempts, …")
    fingerprint: Text | None = Field(None, description="Only of this group.")
    key: Text | None = Field(None, description="What they are ordered by.")
    saga_id: Text | None = Field(None, description="Commands and answers of this saga.")
    correlation_id: Text | None = Field(None, description="Of this flow.")
    failed_after: Time | None = Field(None, description="Died last at this time or later.")
    failed_before: Time | None = Field(None, description="Died last before this time.")
    status: Status | None = Field(None, description="Only of this status.")

    def where(self, alias: str = "e", *, first: int = 1) -> tuple[list[str], list[object]]:
        """Conditions on a row of dlq_events, and their values: $1, $2, … or from another number on."""
        written = Conditions(first)
        for column in ("consumer", "reason", "fingerprint", "key", "saga_id", "correlation_id"):
            written.equals(f"{alias}.{column}", getattr(self, column))
        written.is_type(f"{alias}.event_type", self.event_type)
        written.is_error(f"{alias}.error_type", self.error)
        if self.failed_after is not None:
            written.add("{} <= " + f"{alias}.failed_at", "timestamptz", self.failed_after)
        if self.failed_before is not None:
            written.add("{} > " + f"{alias}.failed_at", "timestamptz", self.failed_before)
        if self.status is not None:
            written.texts.append(f"{alias}.status = '{self.status}'")  # one of a fixed list
        return written.texts, written.values

    @property
    def is_of_a_time(self) -> bool:
        return self.failed_after is not None or self.failed_before is not None

    @property
    def names_one_thing(self) -> bool:
        """Whether it asks for a key, a flow or a saga: few letters, and an index for each."""
        return self.key is not None or self.saga_id is not None or self.correlation_id is not None


class Conditions:
    """Conditions in SQL as they are collected, with the values of their parameters."""

    def __init__(self, first: int = 1) -> None:
        self.texts: list[str] = []
        self.values: list[object] = []
        self._first = first

    @property
    def next(self) -> int:
        """The number of the next parameter."""
        return self._first + len(self.values)

    def parameter(self, kind: str, value: object) -> str:
        text = f"${self.next}::{kind}"
        self.values.append(value)
        return text

    def add(self, text: str, kind: str, value: object) -> None:
        """`text` has {} where the parameter goes."""
        if isinstance(value, str) and "\x00" in value:
            self.texts.append("false")  # Postgres keeps no such text, and answers a NUL with an error
        else:
            self.texts.append(text.format(self.parameter(kind, value)))

    def equals(self, column: str, value: str | None) -> None:
        if value is not None:
            self.add(column + " = {}", "text", value)

    def is_type(self, column: str, event_type: str | None) -> None:
        if event_type == "":
            self.texts.append(f"{column} IS NULL")
        else:
            self.equals(column, event_type)

    def is_error(self, column: str, error: str | None) -> None:
        """The type as a whole or its last part: people know an exception by its own name."""
        if error is not None:
            self.add(f"({column} = {{0}} OR right({column}, length({{0}}) + 1) = '.' || {{0}})", "text", error)

"""Where a page ended, as a text that the next one is asked for by. Pure.

A cursor names a place in an order that does not change, not a row: the row may be gone by then.
"""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from surefoot.dlq.errors import Declined

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMED = re.compile(r"(-?[0-9]{1,18})_([^\x00]{1,200})", re.ASCII | re.DOTALL)


class BadCursor(Declined):
    """A page was asked for from a place that is none."""

    def __init__(self) -> None:
        super().__init__(
            "The page cannot begin there: `after` must be the `next` of a page that was asked for by the same filter. "
            "Begin again without it."
        )


def by_id(after: str) -> UUID:
    try:
        return UUID(after)
    except ValueError:
        raise BadCursor from None


def by_time(after: str) -> tuple[datetime, UUID]:
    time, rest = by_time_and_text(after)
    return time, by_id(rest)


def by_time_and_text(after: str) -> tuple[datetime, str]:
    matched = _TIMED.fullmatch(after)
    if matched is None:
        raise BadCursor
    try:
        return _EPOCH + int(matched[1]) * _MICROSECOND, matched[2]
    except OverflowError:
        raise BadCursor from None


def timed(time: datetime, rest: object) -> str:
    return f"{(time - _EPOCH) // _MICROSECOND}_{rest}"

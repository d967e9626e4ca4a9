"""What is answered over HTTP: from the counts in the table to what becomes JSON."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NotRequired, TypedDict, TypeVar

from consumers.statistics.counting import View, oldest

Partition = TypeVar("Partition")
Window = tuple[float, float]
"""From and to, in seconds since 1970."""


class Minute(TypedDict):
    minute: str
    counts: dict[str, int]


class Answer(TypedDict):
    minutes: list[Minute]


class Health(TypedDict):
    status: str
    topics: list[str]
    behind: NotRequired[int]


def answer(contents: Iterable[tuple[tuple[View, Window], Mapping[str, int]]], view: View, now_s: float) -> Answer:
    """The minutes of a view that have something in them, newest last; names in the order of their counts."""
    beyond = oldest(now_s)
    found = {int(window[0]): counts for (its_view, window), counts in contents if its_view == view}
    shown = sorted(start for start in found if start > beyond)
    return {"minutes": [{"minute": _written(start), "counts": _by_count(found[start])} for start in shown]}


def health(topics: Iterable[str], behind: int | None) -> Health:
    """`starting` until Kafka has given it the partitions; then how many records it has yet to read."""
    if behind is None:
        return {"status": "starting", "topics": sorted(topics)}
    return {"status": "ok", "topics": sorted(topics), "behind": behind}


def records_behind(next_offsets: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int:
    """From the offsets that are read next to those that the next records will get."""
    return sum(max(0, end - next_offsets.get(where, end)) for where, end in ends.items())


def _written(start: int) -> str:
    return datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))

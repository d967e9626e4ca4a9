"""The weekly report on dead letters, as Markdown. Pure: the same facts are the same text.

What comes from events and from people is escaped: a report is opened in browsers and pasted into tickets, and an error
message must not become a link, a picture or a heading there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from surefoot.events.text import has_forbidden

QUOTED = 300
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#!|~&@:$^\"'])")
_LEADING = re.compile(r"^([-+=])|^(\d+)([.)])")


@dataclass(frozen=True, slots=True)
class GroupFacts:
    fingerprint: str
    event_type: str | None
    sentence: str
    open: int
    new: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Who discarded letters and why, and how many they were."""

    decided: str
    count: int


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A consumer's dead letters in the time of the report; what is open is open at its end."""

    consumer: str
    new: int = 0
    replayed: int = 0
    discarded: int = 0
    superseded: int = 0
    open: int = 0
    held_keys: int = 0
    oldest_open: datetime | None = None
    median_to_resolution: timedelta | None = None
    discards: Sequence[Decision] = ()
    """The most frequent."""
    groups: Sequence[GroupFacts] = ()
    """Those with most open."""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    since: datetime
    until: datetime
    consumers: Sequence[ConsumerFacts]


def escaped(text: str, limit: int = QUOTED) -> str:
    """A text that shows as itself in one line of Markdown, also in a table."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    shown = cut.encode("utf-8", errors="replace").decode()
    plain = " ".join("".join(" " if has_forbidden(letter) else letter for letter in shown).split())
    marked = _MARKS.sub(r"\\\1", plain)
    return _LEADING.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", marked)


def report_text(facts: ReportFacts) -> str:
    return "\n".join(_lines(facts)) + "\n"


def span(time: timedelta) -> str:
    """A time as people say it, in its two largest units."""
    left = max(0, round(time.total_seconds()))
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        many, left = divmod(left, size)
        if many:
            parts.append(f"{many} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _lines(facts: ReportFacts) -> Iterator[str]:
    yield f"# Dead letters from {_time(facts.since)} to {_time(facts.until)}"
    yield ""
    consumers = sorted(facts.consumers, key=lambda one: one.consumer)
    if not consumers:
        yield "None came, none was decided, none is open."
        return
    yield "| consumer | new | replayed | discarded | superseded | open at the end | keys held |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for one in consumers:
        counts = (one.new, one.replayed, one.discarded, one.superseded, one.open, one.held_keys)
        yield f"| {_name(one)} | {' | '.join(map(str, counts))} |"
    for one in consumers:
        yield ""
        yield from _section(one, facts.until)


def _section(one: ConsumerFacts, until: datetime) -> Iterator[str]:
    yield f"## {_name(one)}"
    yield ""
    yield f"- New: {one.new}"
    yield f"- Settled: {one.replayed} replayed, {one.discarded} discarded, {one.superseded} superseded"
    if one.median_to_resolution is not None:
        yield f"- Half of those were settled within {span(one.median_to_resolution)} of their first failure"
    if one.oldest_open is None:
        yield "- Still open: none"
    else:
        age = span(until - one.oldest_open)
        yield f"- Still open: {one.open}; the oldest since {_time(one.oldest_open)} ({age})"
    yield f"- Keys whose later events wait: {one.held_keys}"
    if one.groups:
        yield from ("", "### Groups with most open", "")
        yield "| open | new | event | what it says | group |"
        yield "|---:|---:|---|---|---|"
        for group in one.groups:
            event, sentence = escaped(group.event_type or "(no event)"), escaped(group.sentence)
            yield f"| {group.open} | {group.new} | {event} | {sentence} | {escaped(group.fingerprint)} |"
    if one.discards:
        yield from ("", "### Discarded, by whom and why", "")
        for discard in one.discards:
            letters = "1 letter" if discard.count == 1 else f"{discard.count} letters"
            yield f"- {letters}. {escaped(discard.decided)}"
        told = sum(discard.count for discard in one.discards)
        if told < one.discarded:
            yield f"- {one.discarded - told} more, for other reasons"


def _name(one: ConsumerFacts) -> str:
    return escaped(one.consumer) or "(letters that could not be read)"


def _time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"

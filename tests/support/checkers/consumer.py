"""Checkers of a consumer's promises: pure functions over what lies in the log and what its handlers have done.

Like the checkers of the relay, they know nothing of how Surefoot works: the log's offsets say what was delivered and in
which order, an effect is a row that a handler wrote. Each is tested against a planted violation.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from surefoot.testing.checkers import Finding, Seen, first_occurrences


class Effect(NamedTuple):
    """Something a handler did for an event. `order` sorts the effects of a key by when they happened."""

    event_id: str
    key: str
    order: int
    member: str = ""


def lost_effects(seen: Iterable[Seen], effects: Iterable[Effect], kept: Collection[str] = ()) -> list[Finding]:
    """P5: every delivered event had its effect, or is one of those `kept`: parked or dead, for all to see."""
    there = {effect.event_id for effect in effects}.union(kept)
    keys = {event.event_id: event.key for event in seen}
    return [
        Finding("lost", f"{event_id} of key {key} was delivered, had no effect, and is neither parked nor dead")
        for event_id, key in keys.items()
        if event_id not in there
    ]


def repeated_effects(effects: Iterable[Effect]) -> list[Finding]:
    """P2: an event has its effect once, however often it was delivered."""
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for effect in effects:
        members[effect.event_id, effect.key].append(effect.member)
    return [
        Finding("repeated", f"{event_id} of key {key} had its effect {len(by)} times (by {', '.join(sorted(set(by)))})")
        for (event_id, key), by in members.items()
        if len(by) > 1
    ]


def invented_effects(seen: Iterable[Seen], effects: Iterable[Effect]) -> list[Finding]:
    """No effect without an event."""
    known = {event.event_id for event in seen}
    return [
        Finding("invented", f"{effect.event_id} of key {effect.key} had an effect and was never delivered")
        for effect in effects
        if effect.event_id not in known
    ]


def effects_out_of_order(
    seen: Iterable[Seen], effects: Iterable[Effect], holding: Collection[str] = ()
) -> list[Finding]:
    """P3: within a key, effects happened in the order of first deliveries, and nothing has passed an event that is
    `holding` its key (parked, or dead and held)."""
    happened: dict[str, dict[str, None]] = defaultdict(dict)
    for effect in sorted(effects, key=lambda effect: effect.order):
        happened[effect.key].setdefault(effect.event_id)
    findings = []
    for key, delivered in first_occurrences(seen).items():
        known = set(delivered)
        done = [event_id for event_id in happened[key] if event_id in known]
        waiting = [event_id for event_id in delivered if event_id in holding and event_id not in happened[key]]
        actual = done + waiting
        wanted = [event_id for event_id in delivered if event_id in happened[key] or event_id in holding]
        if actual != wanted:
            at = next(n for n, (is_, should) in enumerate(zip(actual, wanted, strict=True)) if is_ != should)
            sentence = f"key {key}: effect number {at + 1} is that of {actual[at]}, should be that of {wanted[at]}"
            findings.append(Finding("out_of_order", sentence))
    return findings


def unaccounted(seen: Iterable[Seen], received: Collection[str]) -> list[Finding]:
    """P5, by the consumer's own books: each event that was delivered is in its inbox."""
    return [
        Finding("unaccounted", f"{event_id} was delivered and is not in the inbox")
        for event_id in dict.fromkeys(event.event_id for event in seen)
        if event_id not in received
    ]


def check_effects(
    seen: Sequence[Seen],
    effects: Sequence[Effect],
    *,
    holding: Collection[str] = (),
    released: Collection[str] = (),
) -> list[Finding]:
    """All of it. `holding`: events that are parked, or dead and held; `released`: dead ones whose key goes on."""
    return [
        *lost_effects(seen, effects, kept={*holding, *released}),
        *repeated_effects(effects),
        *invented_effects(seen, effects),
        *effects_out_of_order(seen, effects, holding),
    ]

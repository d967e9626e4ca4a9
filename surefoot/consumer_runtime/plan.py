"""What a transaction does with its records, in order: handle, park, bury, obey, pass by. Pure.

The one rule behind it: nothing of a key is handled while something earlier of that key waits.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from surefoot.consumer.consumer import WhenDead
from surefoot.consumer.handlers import BatchHandler, OutsideHandler, same_function
from surefoot.consumer_runtime.reading import Bad, Delivery, Passed, Reading, Told


@dataclass(frozen=True, slots=True)
class Handle:
    delivery: Delivery


@dataclass(slots=True)
class HandleRun:
    """Deliveries that follow each other and have one function for a batch, whatever their types."""

    deliveries: list[Delivery]


@dataclass(frozen=True, slots=True)
class Prepare:
    """The first half of an outside call; what is behind it on its key waits for the rest."""

    delivery: Delivery


@dataclass(frozen=True, slots=True)
class Wait:
    """Something earlier of its key waits, so this does, too."""

    what: Delivery | Bad


@dataclass(frozen=True, slots=True)
class Bury:
    bad: Bad
    holds: bool


@dataclass(frozen=True, slots=True)
class Obey:
    told: Told


Step = Handle | HandleRun | Prepare | Wait | Bury | Obey


@dataclass(slots=True)
class Plan:
    steps: list[Step] = field(default_factory=list)
    ignored: int = 0
    duplicates: int = 0


def plan(
    readings: Sequence[Reading],
    *,
    held: AbstractSet[str],
    fresh: AbstractSet[tuple[str, str]] | None,
    when_dead: WhenDead,
) -> Plan:
    """`held`: keys with something parked. `fresh`: what the inbox had not seen (None: all of it is fresh)."""
    made = Plan()
    waiting = set(held)
    left = None if fresh is None else set(fresh)
    for reading in readings:
        if isinstance(reading, Passed):
            made.ignored += reading.ignored
            continue
        if left is not None:
            identity = (reading.source, reading.event_id)
            if identity not in left:
                made.duplicates += 1
                continue
            left.remove(identity)  # the second of two in one batch is a duplicate as well
        made.steps.append(_step(reading, waiting, when_dead, made.steps))
    return made


def _step(reading: Delivery | Bad | Told, waiting: set[str], when_dead: WhenDead, steps: list[Step]) -> Step:
    if isinstance(reading, Told):
        return Obey(reading)
    if isinstance(reading, Delivery):
        if waiting and reading.key in waiting:
            return Wait(reading)
        if isinstance(reading.handler, OutsideHandler):
            waiting.add(reading.key)
            return Prepare(reading)
        if isinstance(reading.handler, BatchHandler):
            return _run(reading, reading.handler, steps)
        return Handle(reading)
    if not reading.identified:
        return Bury(reading, holds=False)
    if reading.key in waiting:
        return Wait(reading)
    holds = when_dead == "hold"
    if holds:
        waiting.add(reading.key)
    return Bury(reading, holds)


def _run(delivery: Delivery, handler: BatchHandler, steps: list[Step]) -> HandleRun:
    """Join the run that is being collected, or begin one."""
    last = steps[-1] if steps else None
    if isinstance(last, HandleRun) and same_function(last.deliveries[-1].handler, handler):
        steps.pop()
        last.deliveries.append(delivery)
        return last
    return HandleRun([delivery])


FIRST_PART = 8


def cut(count: int, culprit: int | None) -> list[slice]:
    """How to take a failed batch again: around the one that failed if it is known, else in halves.

    Each part is a transaction of its own, so that a failure costs only its own event in the end. What is behind the
    culprit is taken in parts that double: where one fails, the next may well do so, too, and each failure costs what
    was done before it in its part."""
    if count <= 1:
        return [slice(0, count)]
    if culprit is None:
        return [slice(0, count // 2), slice(count // 2, count)]
    parts = [slice(0, culprit), slice(culprit, culprit + 1)]
    at, size = culprit + 1, FIRST_PART
    while at < count:
        parts.append(slice(at, min(count, at + size)))
        at, size = at + size, size * 2
    return [part for part in parts if part.stop > part.start]

"""How much one key's poison costs the others: the same steady load twice, without a poisoned key and with one.

`compare` is for the crash tests and for benches alike: it starts nothing and asserts nothing.
"""

import asyncio
import time
from dataclasses import dataclass

from surefoot.events import Event, EventData
from tests.crash.consumer_ground import Ground


@dataclass(frozen=True, slots=True)
class Load:
    events_per_s: int = 300
    seconds: float = 15.0
    keys: int = 1000
    poison_every: int = 100
    """So many events after another, one is of the poisoned key."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The 99th percentile of the other keys' time from publication to commit, in milliseconds."""

    without_ms: float
    with_ms: float

    def __str__(self) -> str:
        return f"99 % of the other keys' events within {self.without_ms:.0f} ms without poison, {self.with_ms:.0f} with"


async def compare(ground: Ground, load: Load, poisoned: str) -> Compared:
    """One after the other, on the same members. In both, the one key has its share of events; in the second, all of
    them fail."""
    without = await offer(ground, load, poisoned)
    first = len(ground.numbers)
    expected = int(load.events_per_s * load.seconds)
    await ground.connection.executemany(
        "INSERT INTO faults VALUES ($1, $2)", [(poisoned, number) for number in range(first, first + expected)]
    )
    return Compared(without, await offer(ground, load, poisoned))


async def offer(ground: Ground, load: Load, poisoned: str) -> float:
    """Publish at a steady rate; the 99th percentile for all keys but the poisoned one, in milliseconds."""
    published: dict[str, float] = {}
    began = time.monotonic()
    total, tick = int(load.events_per_s * load.seconds), 0.02
    while len(published) < total:
        due = min(total, int((time.monotonic() - began) * load.events_per_s))
        first = len(ground.numbers)
        made = [event_of(ground, load, first + n, poisoned) for n in range(due - len(published))]
        now = time.time()
        published |= {event.id: now for event in made}
        await ground.publish(made)
        await asyncio.sleep(tick)
    others = [event_id for event_id in published if ground.events[event_id].key != poisoned]
    await ground.have_had_effects(others)
    rows = await ground.connection.fetch(
        "SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 AS at FROM effects "
        "WHERE event_id = ANY ($1)",
        others,
    )
    took: list[float] = sorted(row["at"] - published[row["event_id"]] for row in rows)
    return 1000 * took[int(len(took) * 0.99)]


def event_of(ground: Ground, load: Load, number: int, poisoned: str) -> Event[EventData]:
    key = poisoned if number % load.poison_every == 0 else f"key-{number % (load.keys - 1)}"
    return ground.event(key, number)

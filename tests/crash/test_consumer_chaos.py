"""Members come and go all the time, some of them killed, while events arrive many times over: each effect happens once,
in order per key, and most of the work is done meanwhile.
"""

import asyncio
import os
import random
import signal
from collections.abc import Sequence
from itertools import chain

import pytest

from surefoot.events import Event, EventData
from tests.support.consumer.crash_harness import Ground

pytest_plugins = ["tests.support.consumer.crash_fixtures"]
pytestmark = [pytest.mark.crowd, pytest.mark.timeout(600), pytest.mark.promise("P2", "P3", "P5")]

EVENTS, KEYS, MEMBERS = 50_000, 1_000, 3
EVERY_S = 2.0
SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
ROUNDS, MOST_ROUNDS = (30, 30) if SOAK else (13, 52)
"""How long they come and go: at full size for a minute, else until half of the work is done, however slow the machine.
That it gets done while they do is what is shown; how fast it is, the bench says."""


@pytest.mark.kafka
async def test_effects_happen_once_and_in_order_while_members_come_and_go_on_kafka(kafka_ground: Ground) -> None:
    await chaos(kafka_ground, seed=1)


async def test_effects_happen_once_and_in_order_while_members_come_and_go_on_the_postgres_log(
    postgres_ground: Ground,
) -> None:
    await chaos(postgres_ground, seed=2)


async def chaos(ground: Ground, *, seed: int) -> None:
    chance = random.Random(seed)
    deliveries = with_repeats(ground, chance)
    assert len(ground.numbers) == EVENTS
    assert len(deliveries) > 3 * EVENTS

    kills = await come_and_go(ground, chance, deliveries)
    meanwhile = await ground.effect_count()
    await ground.finished()

    assert await ground.findings() == []
    assert await ground.effect_count() == EVENTS
    assert kills >= 3
    assert meanwhile >= EVENTS / 2, f"only {meanwhile} of {EVENTS} events were processed while members came and went"


def with_repeats(ground: Ground, chance: random.Random) -> list[Event[EventData]]:
    """Events in order; three in ten are delivered 2 to 20 times, each time anywhere later."""
    events = [ground.event(f"key-{chance.randrange(KEYS)}", number) for number in range(EVENTS)]
    repeated = chance.sample(range(EVENTS), EVENTS * 3 // 10)
    again = [(chance.uniform(at, EVENTS), events[at]) for at in repeated for _ in range(chance.randint(1, 19))]
    placed = sorted(chain(enumerate(events), again), key=lambda pair: pair[0])
    return [event for _, event in placed]


async def come_and_go(ground: Ground, chance: random.Random, deliveries: Sequence[Event[EventData]]) -> int:
    """Every two seconds one of them leaves, in peace or by SIGKILL, and another one joins; how many were killed.

    Most of the time there is more to do: what is delivered comes in parts, one each time."""
    size = -(-len(deliveries) // (ROUNDS - 3))
    members = [await ground.start() for _ in range(MEMBERS)]
    kills = 0
    for round_ in range(MOST_ROUNDS):
        if round_ >= ROUNDS and await ground.effect_count() >= EVENTS / 2:
            break
        part = deliveries[round_ * size : (round_ + 1) * size]
        await asyncio.gather(ground.publish(part), asyncio.sleep(EVERY_S))
        leaving = members.pop(chance.randrange(MEMBERS - 1))  # the newest has hardly joined yet
        killed = chance.random() < 0.5
        kills += killed
        leaving.signal(signal.SIGKILL if killed else signal.SIGTERM)
        members.append(await ground.start())
        code = await leaving.ended()
        # In peace is 0; or the signal, for one that was not ready to hear it.
        assert code == -signal.SIGKILL if killed else code in (0, -signal.SIGTERM), leaving.log.read_text()
    return kills

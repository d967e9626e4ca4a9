"""One key of a thousand is poisoned, under a steady load: the others hardly notice, and its own events keep their
order, when the poison is taken out and replayed, and when the key goes on without it.
"""

import asyncio
import os

import pytest

from surefoot.events import Event, EventData
from tests.crash.consumer_app import ATTEMPTS, REST_S, WHEN_DEAD
from tests.crash.consumer_ground import FAULTY, Ground
from tests.crash.consumer_poison import Compared, Load, compare
from tests.waiting import eventually

pytest_plugins = ["tests.crash.consumer_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LOAD = Load(seconds=15.0 if os.environ.get("SUREFOOT_SOAK") else 6.0)
TRIES = 3
"""The machine is not ours alone: what one pair of measurements says, the next one must not deny each time."""


async def test_poison_delays_its_own_key_only_and_a_replay_keeps_that_keys_order(postgres_ground: Ground) -> None:
    ground = postgres_ground
    await ground.start(**FAULTY, **{ATTEMPTS: "10", REST_S: "0.1"})
    await ground.publish_some(1000, keys=999)
    await ground.finished()

    seen: list[Compared] = []
    while not seen or (seen[-1].with_ms > 2 * seen[-1].without_ms and len(seen) < TRIES):
        seen.append(await compare(ground, LOAD, f"poisoned-{len(seen)}"))
    assert seen[-1].with_ms <= 2 * seen[-1].without_ms, "; ".join(map(str, seen))
    assert await ground.findings() == []

    await eventually(lambda: all_dead(ground, len(seen)), what="the poison is dead, the rest of its key waits")
    await ground.heal()
    for n in range(len(seen)):
        key = f"poisoned-{n}"
        await ground.control("replay", await dead_event(ground, key))
        await ground.publish([ground.event(key, number) for number in next_numbers(ground, 200)])
    await ground.finished()
    assert await ground.parked() == {}
    assert await ground.findings() == []


@pytest.mark.kafka
async def test_a_key_that_is_released_goes_on_in_order_without_its_dead_event(kafka_ground: Ground) -> None:
    ground = kafka_ground
    await ground.start(**FAULTY, **{ATTEMPTS: "4", REST_S: "0.2", WHEN_DEAD: "release"})
    await ground.fail("poisoned", 3)
    events = [ground.event("poisoned", number) for number in range(1500)]
    for at in range(0, len(events), 30):  # while it is tried, while it dies, while those that waited have their turn
        await ground.publish(events[at : at + 30])
        await asyncio.sleep(0.05)
    await ground.finished()
    assert await ground.parked() == {"DEAD": 1}
    assert await ground.effects_of("poisoned") == [0, 1, 2, *range(4, 1500)]
    assert await ground.findings() == []

    await ground.heal()
    await ground.control("replay", events[3])
    await ground.have_had_effects([events[3].id])
    assert await ground.effects_of("poisoned") == [0, 1, 2, *range(4, 1500), 3]


def next_numbers(ground: Ground, count: int) -> range:
    return range(len(ground.numbers), len(ground.numbers) + count)


async def all_dead(ground: Ground, keys: int) -> bool:
    return (await ground.parked()).keys() == {"DEAD", "WAITING"} and (await ground.parked())["DEAD"] == keys


async def dead_event(ground: Ground, key: str) -> Event[EventData]:
    dead = "SELECT event_id FROM surefoot.parked_events WHERE key = $1 AND state = 'DEAD'"
    return ground.events[await ground.connection.fetchval(dead, key)]

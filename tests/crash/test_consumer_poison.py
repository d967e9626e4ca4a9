"""One key of a thousand is poisoned, under load: the others go on, and its own events keep their order, when the poison
is taken out and replayed, and when the key goes on without it. How little the others notice is measured by
`make bench-poison`.
"""

import asyncio
import os
import signal

import pytest

from surefoot.events import Event, EventData
from tests.support.consumer.crash_app import ATTEMPTS, REST_S, WHEN_DEAD
from tests.support.consumer.crash_harness import FAULTY, Ground
from tests.support.waiting import eventually

pytest_plugins = ["tests.support.consumer.crash_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVENTS = 4500 if os.environ.get("SUREFOOT_SOAK") else 1800
OTHER_KEYS = 999
POISON_EVERY = 100
ENDLESS = {ATTEMPTS: "1000", REST_S: "0.1"}
"""It is tried for minutes: longer than any of these tests takes."""


@pytest.mark.crowd
@pytest.mark.promise("P3", "P6a")
async def test_poison_delays_its_own_key_only_and_a_replay_keeps_that_keys_order(postgres_ground: Ground) -> None:
    ground = postgres_ground
    patient = await ground.start(**FAULTY, **ENDLESS)
    await ground.publish_some(1000, keys=OTHER_KEYS)
    await ground.finished()

    await ground.fail("poisoned", len(ground.numbers))  # the number of its first event
    poison, *waiting = await under_load(ground)
    assert await ground.parked() == {"DUE": 1, "WAITING": len(waiting)}
    assert await ground.effects_of("poisoned") == []
    assert await ground.findings() == []

    patient.signal(signal.SIGTERM)
    assert await patient.ended() == 0
    await ground.start(**FAULTY, **{ATTEMPTS: "1"})
    await eventually(lambda: is_dead(ground), what="the poison is dead")
    waiting += await under_load(ground)
    assert await ground.parked() == {"DEAD": 1, "WAITING": len(waiting)}
    assert await ground.effects_of("poisoned") == []
    assert await ground.findings() == []

    await ground.heal()
    await ground.control("replay", poison)
    waiting += await published(ground, ["poisoned"] * 200)
    await ground.finished()
    assert await ground.parked() == {}
    assert await ground.effects_of("poisoned") == [ground.numbers[event.id] for event in (poison, *waiting)]
    assert await ground.findings() == []


@pytest.mark.promise("P6a")
async def test_other_keys_go_on_while_one_is_poisoned_on_kafka(kafka_ground: Ground) -> None:
    ground = kafka_ground
    await ground.start(**FAULTY, **ENDLESS)
    await ground.fail("poisoned", 0)
    poisoned = [ground.event("poisoned", number) for number in range(3)]
    others = [ground.event(f"key-{number % 20}", number) for number in range(3, 103)]
    await ground.publish([*poisoned, *others])
    await ground.have_had_effects([event.id for event in others])

    async def all_wait() -> bool:
        return await ground.parked() == {"DUE": 1, "WAITING": 2}

    await eventually(all_wait, what="the poisoned event is tried again, and those behind it wait")
    assert await ground.effects_of("poisoned") == []
    assert await ground.findings() == []


@pytest.mark.kafka
async def test_a_key_that_is_released_goes_on_in_order_without_its_dead_event(kafka_ground: Ground) -> None:
    ground = kafka_ground
    await ground.start(**FAULTY, **{ATTEMPTS: "4", REST_S: "0.2", WHEN_DEAD: "release"})
    await ground.fail("poisoned", 3)
    events = [ground.event("poisoned", number) for number in range(1500)]
    for at in range(0, len(events), 30):
        await ground.publish(events[at : at + 30])
        # The pace of the load: some come while it is tried, some while it dies, some while those that waited have
        # their turn. Nothing that is asserted rests on it.
        await asyncio.sleep(0.05)
    await ground.finished()
    assert await ground.parked() == {"DEAD": 1}
    assert await ground.effects_of("poisoned") == [0, 1, 2, *range(4, 1500)]
    assert await ground.findings() == []

    await ground.heal()
    await ground.control("replay", events[3])
    await ground.have_had_effects([events[3].id])
    assert await ground.effects_of("poisoned") == [0, 1, 2, *range(4, 1500), 3]


async def under_load(ground: Ground) -> list[Event[EventData]]:
    """Publish events of all keys, part by part, until all are read and those of the other keys have had their effects.
    The poisoned key's own are returned."""
    keys = ["poisoned" if n % POISON_EVERY == 0 else f"key-{n % OTHER_KEYS}" for n in range(EVENTS)]
    events = [event for at in range(0, EVENTS, 30) for event in await published(ground, keys[at : at + 30])]
    await ground.have_had_effects([event.id for event in events if event.key != "poisoned"])
    await eventually(ground.read_to_the_end, what="everything is read")
    return [event for event in events if event.key == "poisoned"]


async def published(ground: Ground, keys: list[str]) -> list[Event[EventData]]:
    events = [ground.event(key, number) for number, key in enumerate(keys, len(ground.numbers))]
    await ground.publish(events)
    return events


async def is_dead(ground: Ground) -> bool:
    return (await ground.parked()).get("DEAD") == 1

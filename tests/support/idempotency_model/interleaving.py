"""A random life of a key, from a seed: always the same for the same seed."""

import random
from datetime import timedelta

from surefoot.idempotency.values import Asked, Effect
from tests.support.idempotency_model.promises import broken
from tests.support.idempotency_model.reference import Rules
from tests.support.idempotency_model.world import Ground, World

UNIT = timedelta(seconds=70)
RULES = Rules(
    lease=timedelta(seconds=300),
    longest_lease=timedelta(seconds=1800),
    grace=timedelta(seconds=20),
    replay_for=timedelta(hours=24),
    gone_for=timedelta(hours=24),
    attempts=3,
)
"""Time passes in units of which none of these is a multiple: on a real clock, no comparison is ever a close one."""
JUMPS = (1, 2, 5, 6, 30, 1235, 2470)
JUMP_WEIGHTS = (6, 4, 4, 4, 2, 3, 2)
MINE, OTHER = b"what is asked for".ljust(32), b"something else".ljust(32)
MOST_MOVES = 40
MOST_WORKERS = 5
MOVES = ("request", "step", "crash", "freeze", "wake", "time", "complete", "renew", "house", "age")
MOVE_WEIGHTS = (50, 100, 10, 10, 10, 30, 20, 10, 20, 3)
MOST_ROUNDS = 40


def world_of(seed: int, ground: Ground, key_hash: bytes) -> World:
    chance = random.Random(seed)
    effect: Effect = "outside" if chance.random() < 0.75 else "local"
    asked = Asked("tenant", key_hash, f"POST /{effect}", effect, MINE, 1)
    return World(ground, RULES, asked, chance)


async def play(world: World) -> None:
    """Make random moves, let everything come to rest, and look whether the promises were kept."""
    try:
        for _ in range(world.chance.randint(5, MOST_MOVES)):
            await move(world)
        await come_to_rest(world)
    finally:
        for worker in list(world.workers):
            await world.crash(worker)
    assert broken(world.seen, world.provider) == []


async def move(world: World) -> None:
    chance = world.chance
    movable = world.movable()
    kind = chance.choices(MOVES, MOVE_WEIGHTS)[0]
    if kind == "request" and len(world.workers) < MOST_WORKERS:
        await world.request(OTHER if chance.random() < 0.2 else MINE)
    elif kind == "step" and movable:
        await world.step(chance.choice(movable))
    elif kind == "crash" and world.workers:
        await world.crash(chance.choice(world.workers))
    elif kind == "freeze" and (kept := [worker for worker in world.workers if not worker.has_transaction]):
        chance.choice(kept).asleep = True
    elif kind == "wake":
        wake(world)
    elif kind == "time":
        await world.pass_time(UNIT * chance.choices(JUMPS, JUMP_WEIGHTS)[0])
    elif kind == "complete":
        await world.complete()
    elif kind == "renew" and (
        holding := [one for one in movable if not one.has_transaction and one.claim.provider_key]
    ):
        await world.renew(chance.choice(holding))
    elif kind == "house":
        await world.keep_house()
    elif kind == "age":
        await age(world)


async def age(world: World) -> None:
    """Whoever works falls asleep; the completer goes on, the windows pass, and the key is new under the sleepers."""
    await world.pass_time(UNIT * 6)
    for worker in world.workers:
        worker.asleep = True
    await world.complete()
    while movable := world.movable():
        await world.step(movable[0])
    await world.pass_time(UNIT * 2470)
    await world.keep_house()
    await world.request(MINE)
    if movable := world.movable():
        await world.step(movable[0])


async def come_to_rest(world: World) -> None:
    """Whoever sleeps wakes up; then the completer and a patient client go on until there is an end."""
    wake(world)
    while world.workers:
        await world.step(world.chance.choice(world.movable()))
    for _ in range(MOST_ROUNDS):
        await world.complete()
        began = world.reference.began
        verdict = await world.request(MINE if began is None else began.asks)
        while world.workers:
            await world.step(world.chance.choice(world.movable()))
        if verdict in ("answered", "gone"):
            return
        await world.pass_time(UNIT * 6)
    raise AssertionError(f"it does not come to an end: {world.reference.lives[-1]}")


def wake(world: World) -> None:
    for worker in world.workers:
        worker.asleep = False

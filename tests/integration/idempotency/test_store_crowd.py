"""A crowd on a few keys, in two processes' worth of stores: one effect for each key, and the same bytes for all."""

import asyncio
import random
from dataclasses import dataclass, field

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.idempotency.errors import FenceLost, StoreAway
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Answer, Answered, Asked, Effect, InFlight
from tests.integration.idempotency.storing import REQUEST, ROUTES, SETTINGS, asked, end_lease

pytestmark = pytest.mark.slow
KEYS, EACH, DEATHS = 8, 20, 12


class Dies(Exception):
    """A process ends in the middle."""


@dataclass
class World:
    connection: asyncpg.Connection
    deaths_left: int = DEATHS
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def maybe_die(self) -> None:
        if self.deaths_left > 0 and self.chance.random() < 0.4:
            self.deaths_left -= 1
            raise Dies

    async def bury(self, wanted: Asked) -> None:
        """Its lease runs out at once."""
        async with self.lock:
            await end_lease(self.connection, wanted)


async def ask(world: World, store: Store, wanted: Asked) -> bytes:
    """What a client does: ask until there is an answer. Now and then whoever works on it dies."""
    while True:
        await asyncio.sleep(world.chance.uniform(0, 0.05))
        try:
            found = await store.begin(wanted, ROUTES[wanted.effect])
            if isinstance(found, Answered):
                return found.answer.body
            if isinstance(found, Begun):
                async with found:
                    await (local if wanted.effect == "local" else outside)(world, store, found)
            else:
                assert isinstance(found, InFlight), found
        except Dies:
            await world.bury(wanted)
        except (FenceLost, StoreAway):
            pass


async def local(world: World, store: Store, begun: Begun) -> None:
    mine = world.chance.randbytes(8)
    await begun.tx.session.execute(
        text("INSERT INTO done VALUES (:key, :what)"), {"key": begun.claim.asked.key_hash, "what": mine.hex()}
    )
    world.maybe_die()
    await begun.finish(Answer(201, (), mine), "COMPLETED")


async def outside(world: World, store: Store, begun: Begun) -> None:
    claim = await begun.keep({"id": world.chance.randbytes(8).hex()}, None, world.chance.randbytes(8).hex(), REQUEST)
    world.maybe_die()
    if "made" not in claim.phases:
        async with store.phase(claim, "made") as unit:
            await unit.tx.session.execute(
                text("INSERT INTO done VALUES (:key, :what)"),
                {"key": claim.asked.key_hash, "what": f"{claim.minted['id']} {claim.provider_key}"},
            )
        world.maybe_die()
    await store.complete(claim, Answer(201, (), claim.minted["id"].encode()), "COMPLETED")


@pytest.mark.parametrize("effect", ["local", "outside"])
async def test_each_key_has_one_effect_and_one_answer(
    database_url: str, connection: asyncpg.Connection, effect: Effect
) -> None:
    await connection.execute("CREATE TABLE done (key bytea, what text)")
    world = World(connection)
    keys = [asked(f"key-{number}", effect) for number in range(KEYS)]
    async with Store(database_url, SETTINGS) as one, Store(database_url, SETTINGS) as other:
        crowd = [(store, key) for key in keys for store in (one, other) for _ in range(EACH)]
        bodies = await asyncio.gather(*(ask(world, store, key) for store, key in crowd))
    answers = {key.key_hash: {body for (_, of), body in zip(crowd, bodies, strict=True) if of is key} for key in keys}
    assert all(len(found) == 1 for found in answers.values()), answers
    rows = await connection.fetch("SELECT key, count(*) AS n FROM done GROUP BY key")
    assert {row["key"]: row["n"] for row in rows} == {key.key_hash: 1 for key in keys}
    assert world.deaths_left < DEATHS

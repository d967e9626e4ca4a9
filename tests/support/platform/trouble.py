"""The trouble that is made for the platform: rounds in which every kind of process is killed, in a random order, some
of them while the broker or the database is away. The same for the same seed, but for what it meets.

After each kill the sagas have to move on a little, if they do so in time, before the next one: whoever is dead all the
time cannot make a mistake.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

from surefoot.database.connection import close_quietly, connect
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.errors import DatabaseUnavailable, LogUnavailable
from surefoot.testing.kafka import LocalKafka
from tests.support.platform.supervisor import Supervisor

PAUSE_S = (0.7, 2.0)
AWAY_S = (0.2, 2.0)
MOVES_WITHIN_S = 4.0
BESIDE_AN_OUTAGE = 2
"""How many of a round's processes are killed while something else is away; the others after it has come back."""
_MOVES = "SELECT coalesce(sum(version), 0)::bigint FROM surefoot.saga_instances"


class Trouble:
    def __init__(self, supervisor: Supervisor, postgres: EmbeddedPostgres, broker: LocalKafka, seed: int) -> None:
        self.outages: Counter[str] = Counter()
        self.met = 0
        """Kills of a platform that had gone on since the one before."""
        self.story: list[str] = []
        """What was done, and when, for whoever looks into a failure."""
        self._supervisor = supervisor
        self._chance = random.Random(seed)
        self._going: dict[str, tuple[Callable[[], None], Callable[[], object]]] = {
            "the broker was stopped": (broker.stop, broker.start),
            "the broker was killed": (broker.kill, broker.start),
            "Postgres was restarted": (postgres.stop, postgres.start),
            "Postgres crashed": (lambda: postgres.stop(immediate=True), postgres.start),
        }
        self._ways: list[str] = []

    async def kills(self) -> None:
        """A round without an outage."""
        await self._kill_at_work(self._all())

    async def kills_and_an_outage(self) -> None:
        """Each of the four outages comes once in four of these rounds."""
        self._ways = self._ways or self._chance.sample(sorted(self._going), len(self._going))
        kinds = self._all()
        after_s, away_s = self._chance.uniform(0, PAUSE_S[1]), self._chance.uniform(*AWAY_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._outage(self._ways.pop(), after_s, away_s))
            for kind in kinds[:BESIDE_AN_OUTAGE]:
                await self._pause()
                self._kill(kind)
        await self._kill_at_work(kinds[BESIDE_AN_OUTAGE:])

    def _all(self) -> list[str]:
        return self._chance.sample(self._supervisor.kinds, len(self._supervisor.kinds))

    async def _kill_at_work(self, kinds: list[str]) -> None:
        for kind in kinds:
            before = await self._moves()
            await self._pause()
            self.met += await self._has_moved(before)
            self._kill(kind)

    def _kill(self, kind: str) -> None:
        self._supervisor.kill(kind)
        self._note(f"{kind} was killed")

    async def _pause(self) -> None:
        await asyncio.sleep(self._chance.uniform(*PAUSE_S))

    async def _outage(self, way: str, after_s: float, away_s: float) -> None:
        goes, comes = self._going[way]
        await asyncio.sleep(after_s)
        await asyncio.to_thread(goes)
        await asyncio.sleep(away_s)  # an outage lasts
        while not await self._is_back(comes):
            self._note(f"{way}, and is slow to come back")
        self.outages[way] += 1
        self._note(f"{way}, and is back")

    async def _is_back(self, comes: Callable[[], object]) -> bool:
        """On a busy machine a broker may need longer than it is given: then it is started once more."""
        try:
            await asyncio.to_thread(comes)
        except LogUnavailable:
            return False
        return True

    def _note(self, what: str) -> None:
        self.story.append(f"{datetime.now(UTC):%H:%M:%S.%f} {what}")

    async def _has_moved(self, before: int) -> bool:
        """Whether any saga moves on within some seconds."""
        ends = asyncio.get_running_loop().time() + MOVES_WITHIN_S
        while asyncio.get_running_loop().time() < ends:
            if await self._moves() > before:
                return True
            await asyncio.sleep(0.1)  # nobody tells us: look again
        return False

    async def _moves(self) -> int:
        """How often any saga has moved on so far. Postgres may be on its way back."""
        try:
            connection = await connect(self._supervisor.platform.url, name="surefoot tests: trouble")
        except DatabaseUnavailable:
            return 0
        try:
            return int(await connection.fetchval(_MOVES))
        finally:
            await close_quietly(connection)

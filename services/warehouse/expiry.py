"""Holds end when their time is over: by the database's clock, in batches, each told in the transaction that ends it.

`Expiry` runs beside the warehouse's consumer, in as many processes as there are: a hold that one of them has in
hand is passed over by the others.
"""

from datetime import timedelta

from prometheus_client import Counter
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from schemas.warehouse import StockHoldExpired
from services.warehouse import stock
from surefoot import outbox
from surefoot.consumer.failures import causes
from surefoot.database.address import shown_url
from surefoot.database.connection import explain, is_missing_table, is_outage
from surefoot.database.engine import create_engine
from surefoot.errors import SchemaOutdated
from surefoot.service import NO_REST, LoopService, Outage

BATCH = 200
INTERVAL = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=10)
_NO_TABLES = (
    "The warehouse has no tables in the database at {} ({}). Make them with services.tables.create_tables, and run "
    "`surefoot migrate` for the outbox."
)
_outages = Counter("surefoot_warehouse_expiry_outages", "How often the expiry of holds found its database away.")


class Expiry(LoopService):
    """Expires holds. While the database is away, or somebody has its rows locked, it waits."""

    def __init__(self, url: str, *, interval: timedelta = INTERVAL) -> None:
        super().__init__("expiry of holds")
        self._url = url
        self._interval = interval
        self._engine = create_engine(url, name="surefoot expiry", pool_size=1, max_overflow=0)
        self._outage = Outage("The warehouse's database", _outages, shortest=interval, longest=LONGEST_PAUSE)

    async def round(self) -> timedelta:
        ended = await expire_holds(self._engine)
        self._outage.over()
        return NO_REST if ended == BATCH else self._interval

    async def outage_of(self, error: Exception) -> Outage:
        if not isinstance(error, DBAPIError | OSError):
            raise error
        *_, deepest = causes(error)
        if is_missing_table(deepest):
            raise SchemaOutdated(_NO_TABLES.format(shown_url(self._url), deepest)) from error
        if not is_outage(deepest):
            raise explain(deepest, self._url) from error
        return self._outage

    async def close(self) -> None:
        await self._engine.dispose()


async def expire_holds(engine: AsyncEngine, limit: int = BATCH) -> int:
    """One batch; how many holds it ended."""
    async with AsyncSession(engine) as session, session.begin():
        ended = await stock.expire(session, limit)
        for hold in ended:
            # A hold's flow is that of its session, whose events carry its id as their correlation.
            told = StockHoldExpired(checkout_session_id=hold.reference, lines=hold.lines)
            outbox.add(session, told, correlation_id=hold.reference)
    return len(ended)

"""How long one saga takes, from the commit of its wish to the commit of its end, at a steady 10 sagas a second."""

import asyncio
import time

from bench.saga_ground import Shop, open_for_business
from bench.saga_shop import placement
from surefoot import outbox

RATE = 10
_TOOK = """
    SELECT extract(epoch FROM pg_xact_commit_timestamp(s.xmin) - pg_xact_commit_timestamp(o.xmin))::float8 * 1000
    FROM surefoot.saga_instances s JOIN bench_asked o ON o.order_id = s.entity_id
    WHERE s.ended_at IS NOT NULL AND o.round = $1"""


async def measure(where: Shop, seconds: float) -> dict[str, float]:
    await where.connection.execute("CREATE TABLE IF NOT EXISTS bench_asked (order_id text PRIMARY KEY, round float8)")
    this_round = time.time()
    async with open_for_business(where):
        before = await where.ended()
        first, end = await where.new_orders(50 + int(RATE * seconds))
        await where.request(first, first + 50)  # connections, prepared statements
        await where.until(before + 50)
        began = time.perf_counter()
        for count, number in enumerate(range(first + 50, end)):
            await asyncio.sleep(max(0.0, began + count / RATE - time.perf_counter()))  # the pace that is measured
            async with outbox.transaction(where.connection) as tx:
                await where.connection.execute("INSERT INTO bench_asked VALUES ($1, $2)", f"order-{number}", this_round)
                tx.add(placement(f"order-{number}"))
        await where.until(before + end - first)
    took = sorted(row[0] for row in await where.connection.fetch(_TOOK, this_round))
    return {"p50": round(took[len(took) // 2], 1), "p99": round(took[int(len(took) * 0.99)], 1)}

"""The floor: plain asyncpg doing the same business writes as four transactions per saga, on 64 connections. No events,
no inbox, no saga: what the database alone costs.

    python -m bench.saga_floor URL FIRST COUNT

prints sagas per second.
"""

import asyncio
import re
import sys
import time

import asyncpg
import uvloop

from bench.saga_shop import PAY, RELEASE, RESERVE, SET_ORDER, SHIP, is_declined, sku_of

CONNECTIONS = 64
WARM = 500


def numbered(statement: str) -> str:
    """The same statement as asyncpg writes it."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return re.sub(r":(\w+)", number, statement)


ORDER_STATUS = numbered(SET_ORDER)  # $1 status, $2 order_id
RESERVED = numbered(RESERVE)  # $1 sku, $2 order_id
RELEASED = numbered(RELEASE)
PAID = numbered(PAY)
SHIPPED = numbered(SHIP)


async def saga(connection: asyncpg.Connection, order_id: str) -> None:
    async with connection.transaction():
        await connection.execute(RESERVED, sku_of(order_id), order_id)
    declined = is_declined(order_id)
    async with connection.transaction():
        await connection.execute(PAID, order_id, "DECLINED" if declined else "CAPTURED")
    if declined:
        async with connection.transaction():
            await connection.execute(RELEASED, order_id)
        async with connection.transaction():
            await connection.execute(ORDER_STATUS, "CANCELLED", order_id)
        return
    async with connection.transaction():
        await connection.execute(ORDER_STATUS, "PROCESSING", order_id)
    async with connection.transaction():
        await connection.execute(SHIPPED, order_id)


async def main(url: str, first: int, count: int) -> None:
    pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    orders = iter([f"order-{number}" for number in range(first, first + WARM + count)])

    async def work(most: int) -> None:
        async with pool.acquire() as connection:
            for _ in range(most):
                order_id = next(orders, None)
                if order_id is None:
                    return
                await saga(connection, order_id)

    await asyncio.gather(*(work(WARM // CONNECTIONS) for _ in range(CONNECTIONS)))
    left = count + WARM - WARM // CONNECTIONS * CONNECTIONS
    began = time.perf_counter()
    await asyncio.gather(*(work(left) for _ in range(CONNECTIONS)))
    print(left / (time.perf_counter() - began))
    await pool.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

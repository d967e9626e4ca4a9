"""`surefoot services`: what it says, and its exit codes, where something is wrong."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from subprocess import PIPE

import asyncpg
import httpx
import pytest

from services.front_door import MOST_BYTES
from services.settings import SERVICES
from services.tables import create_tables
from tests.support import processes
from tests.support.command_line import assert_says, surefoot
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # each starts a process

CANCELLED = """
    INSERT INTO orders.orders
        (order_id, checkout_session_id, customer_id, mode, status, total_minor, currency, lines, ship_to)
    VALUES ('o-1', 's-1', 'c-1', 'orchestrated', 'CANCELLED', 1200, 'EUR', '[]', '{}')
"""
SET_ASIDE = """
    INSERT INTO warehouse.reservations (order_id, reservation_id, state, lines) VALUES ('o-1', 'x', 'RESERVED', '[]')
"""
# Money that was taken and given back for a return which nobody asked for: the sums are right.
REFUNDED = """
    INSERT INTO payments.payments
        (payment_id, order_id, amount, currency, status, refunded, gateway, provider_key, charge_id)
    VALUES ('p-1', 'o-1', 1200, 'EUR', 'REFUNDED', 1200, 'provider', 'k-1', 'ch-1');
    INSERT INTO payments.refunds (refund_request_id, payment_id, return_id, amount, currency, reason, status, refund_id)
    VALUES ('return:ghost', 'p-1', 'ghost', 1200, 'EUR', 'return_approved', 'REFUNDED', 're-1');
    INSERT INTO provider.charges (key, charge_id, order_id, amount, currency, status, refunded)
    VALUES ('k-1', 'ch-1', 'o-1', 1200, 'EUR', 'CAPTURED', 1200);
    INSERT INTO provider.refunds (refund_request_id, refund_id, charge_id, amount, currency)
    VALUES ('return:ghost', 're-1', 'ch-1', 1200, 'EUR');
    INSERT INTO warehouse.inspections (return_id, verdict) VALUES ('ghost', 'REJECTED')
"""


async def test_without_tables_the_check_says_what_to_run(database_url: str) -> None:
    done = await surefoot("services", "check", "--database", database_url)
    assert_says(done, "Run: surefoot services tables")


async def test_the_check_tells_each_contradiction_in_a_sentence(database_url: str) -> None:
    for service in SERVICES:
        await create_tables(database_url, service)
    done = await surefoot("services", "check", "--database", database_url)
    assert (done.code, done.err) == (0, "")
    assert "the services' books agree" in done.out

    connection = await asyncpg.connect(database_url)
    for statement in (CANCELLED, SET_ASIDE, REFUNDED):
        await connection.execute(statement)
    await connection.close()
    done = await surefoot("services", "check", "--database", database_url)
    assert (done.code, done.err) == (1, "")
    gave = "1200 EUR went back to the buyer of o-1 for ghost"
    assert done.out.splitlines() == [
        "✗ goods are RESERVED for o-1, which is CANCELLED",
        f"✗ {gave}, which is no return",
        f"✗ {gave}, which was not accepted",
    ]


async def test_doors_at_an_address_that_others_reach_must_be_asked_for(database_url: str) -> None:
    where = ("--database", database_url, "--host", "0.0.0.0")  # noqa: S104
    assert_says(await surefoot("services", "doors", *where), "or say --open")
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104
        port = str(taken.getsockname()[1])
        done = await surefoot("services", "doors", *where, "--open", "--port", port)
    assert_says(done, f"The front doors cannot be opened at 0.0.0.0:{port}")  # it got as far as the port


async def test_a_port_that_is_taken_is_told_in_a_sentence(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = await surefoot("services", "doors", "--database", database_url, "--port", port)
    assert_says(done, f"The front doors cannot be opened at 127.0.0.1:{port}")


@asynccontextmanager
async def open_doors(database_url: str) -> AsyncIterator[tuple[processes.AsyncChild, httpx.AsyncClient]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ("services", "doors", "--database", database_url, "--port", str(port))
    process = await processes.start_async(["surefoot", *command], stderr=PIPE)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

            async def answers() -> bool:
                try:
                    return (await client.get("/checkout/docs")).status_code < 500
                except httpx.TransportError:
                    return False

            await eventually(answers, what="the doors answer")
            yield process, client
    finally:
        await processes.end(process)


async def test_the_doors_are_open_until_they_are_interrupted(database_url: str) -> None:
    async with open_doors(database_url) as (process, _):
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, said) == (0, b"")


async def test_whoever_sends_too_much_through_a_door_gets_an_answer(database_url: str) -> None:
    size = 4 * MOST_BYTES

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(size // 1024):
            yield b" " * 1024

    async with open_doors(database_url) as (process, client):
        for body in (b" " * size, chunks()):
            answer = await client.post("/returns", content=body)
            assert (answer.status_code, answer.json()["reason"]) == (413, "too_large")
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, said) == (0, b"")

"""What a handler must not do with its transaction, one function each."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import text

from surefoot.consumer import Transaction
from tests.integration.consumers.test_batches import Effect

Misuse = Callable[[Transaction], Awaitable[Any]]


async def fail_in_the_database(tx: Transaction) -> None:
    await tx.session.execute(text("SELECT 1 / 0"))


async def fail_in_a_flush(tx: Transaction) -> None:
    tx.session.add(Effect(event_id="x", key="x", number=None))
    await tx.session.flush()


async def commit_the_session(tx: Transaction) -> None:
    await tx.session.commit()


async def roll_the_session_back(tx: Transaction) -> None:
    await tx.session.rollback()


async def close_the_session(tx: Transaction) -> None:
    await tx.session.close()


async def reset_the_session(tx: Transaction) -> None:
    await tx.session.reset()


async def invalidate_the_session(tx: Transaction) -> None:
    await tx.session.invalidate()


async def commit_the_transaction(tx: Transaction) -> None:
    found = tx.session.get_transaction()
    assert found is not None
    await found.commit()


async def roll_the_transaction_back(tx: Transaction) -> None:
    found = tx.session.get_transaction()
    assert found is not None
    await found.rollback()


async def commit_the_connection(tx: Transaction) -> None:
    await (await tx.session.connection()).commit()


async def roll_the_connection_back(tx: Transaction) -> None:
    await (await tx.session.connection()).rollback()


async def close_the_connection(tx: Transaction) -> None:
    await (await tx.session.connection()).close()


async def invalidate_the_connection(tx: Transaction) -> None:
    await (await tx.session.connection()).invalidate()


async def say_commit(tx: Transaction) -> None:
    await tx.session.execute(text("COMMIT"))


async def say_rollback(tx: Transaction) -> None:
    await tx.session.execute(text("ROLLBACK"))


async def say_commit_in_disguise(tx: Transaction) -> None:
    await tx.session.execute(text(" ;/* the rest */ -- of it\n commit and chain"))


async def tell_the_driver_to_roll_back(tx: Transaction) -> None:
    raw = await (await tx.session.connection()).get_raw_connection()
    await raw.driver_connection.execute("ROLLBACK")  # type: ignore[union-attr]


async def leave_a_savepoint_open(tx: Transaction) -> None:
    await tx.session.begin_nested()


async def commit_over_an_open_savepoint(tx: Transaction) -> None:
    await tx.session.begin_nested()
    await commit_the_transaction(tx)


async def commit_over_an_open_savepoint_and_go_on(tx: Transaction) -> None:
    await tx.session.begin_nested()
    with suppress(Exception):
        await commit_the_transaction(tx)
    with suppress(Exception):
        await tx.session.execute(text("SELECT 1"))


async def kill_its_own_backend(tx: Transaction) -> None:
    await tx.session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


EVERY_MISUSE = [
    fail_in_the_database,
    fail_in_a_flush,
    commit_the_session,
    roll_the_session_back,
    close_the_session,
    reset_the_session,
    invalidate_the_session,
    commit_the_transaction,
    roll_the_transaction_back,
    commit_the_connection,
    roll_the_connection_back,
    close_the_connection,
    invalidate_the_connection,
    say_commit,
    say_rollback,
    say_commit_in_disguise,
    tell_the_driver_to_roll_back,
    leave_a_savepoint_open,
    commit_over_an_open_savepoint,
    commit_over_an_open_savepoint_and_go_on,
    kill_its_own_backend,
]

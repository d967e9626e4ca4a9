"""Ledger beside a model of a few lines: whatever is asked of both, they say the same and hold the same."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from services.ledger import Done, Ledger, Move, OperationReused, Refused
from services.tables import create_tables
from surefoot.database.address import sqlalchemy_url
from surefoot.events import Money

ACCOUNTS = ("a", "b", "c")
CAPS = {"a": 3000, "b": 1000, "c": None}
Step = tuple[str | None, str | None, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from([*ACCOUNTS, None]), st.sampled_from([*ACCOUNTS, None]), st.integers(1, 1500), st.integers(0, 12)
    ).filter(lambda step: step[0] != step[1]),
    max_size=30,
)


@pytest.mark.slow
@given(steps)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_the_books_agree_with_a_simple_model(empty_database_url: str, steps: Sequence[Step]) -> None:
    asyncio.run(_compare(empty_database_url, steps))


async def _compare(url: str, steps: Sequence[Step]) -> None:
    await create_tables(url, "ledger")
    engine = create_async_engine(sqlalchemy_url(url), poolclass=NullPool)
    ledger, run = Ledger(engine), uuid4().hex
    model, known = dict.fromkeys(ACCOUNTS, 0), dict[int, tuple[Step, object]]()
    for name in ACCOUNTS:
        cap = CAPS[name]
        await ledger.open(run + name, "EUR", cap=None if cap is None else Money.minor(cap, "EUR"))
    for step in steps:
        source, target, amount, operation = step
        move = Move(f"{run}:{operation}", source and run + source, target and run + target, Money.minor(amount, "EUR"))
        if operation in known:
            first, outcome = known[operation]
            if first == step:
                assert await ledger.make(move) == outcome
            else:
                with pytest.raises(OperationReused):
                    await ledger.make(move)
            continue
        expected = _expected(model, source, target, amount)
        assert await ledger.make(move) == expected
        known[operation] = (step, expected)
    for name in ACCOUNTS:
        assert await ledger.balance(run + name) == Money.minor(model[name], "EUR")
    await engine.dispose()


def _expected(model: dict[str, int], source: str | None, target: str | None, amount: int) -> object:
    if source is not None and model[source] < amount:
        return Refused("INSUFFICIENT")
    cap = None if target is None else CAPS[target]
    if target is not None and cap is not None and model[target] + amount > cap:
        return Refused("CAP_EXCEEDED")
    if source is not None:
        model[source] -= amount
    if target is not None:
        model[target] += amount
    shown = source or target
    assert shown is not None
    return Done(Money.minor(model[shown], "EUR"))

"""Definitions of sagas that are refused, and the sentence that says why."""

from collections.abc import Callable
from typing import Any

import pytest

from surefoot.saga import DefinitionError, Saga
from tests.support.saga.order_sagas import release, reserve
from tests.support.shop_types import OrderWanted, StockReleased, StockReserved


def new() -> Saga:
    return Saga("order", version=1, starts_on=OrderWanted)


def refused(sentence: str, write: Callable[[Saga], Any]) -> None:
    saga = new()
    with pytest.raises(DefinitionError) as caught:
        write(saga)
        _ = saga.definition
    assert str(caught.value) == sentence


def at_once(sentence: str, write: Callable[[Saga], Any]) -> None:
    """Refused in the line that says it, not when the whole is looked at."""
    with pytest.raises(DefinitionError) as caught:
        write(new())
    assert str(caught.value) == sentence


def ok(saga: Saga, name: str = "reserve") -> None:
    saga.step(name, do=reserve, done_on=StockReserved, undo=release, undone_on=StockReleased)

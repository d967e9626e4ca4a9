"""What phases and calls return takes the way through JSON, and comes back as what it is annotated to be."""

import functools
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from surefoot.idempotency.request.results import shape_of
from surefoot.idempotency.values import PhaseMisuse


@dataclass(frozen=True)
class Row:
    id: UUID
    price: Decimal
    at: datetime
    parts: tuple[int, ...]


class Model(BaseModel):
    row: Row
    names: set[str]


ROW = Row(UUID(int=1), Decimal("1.10"), datetime(2026, 1, 2, tzinfo=UTC), (1, 2))


async def a_row() -> Row: ...  # type: ignore[empty-body]
async def a_model() -> Model: ...  # type: ignore[empty-body]
async def nothing() -> None: ...
async def maybe() -> Row | None: ...
async def some() -> list[Row]: ...  # type: ignore[empty-body]
async def by_name() -> "Row": ...  # type: ignore[empty-body]
async def number() -> float: ...  # type: ignore[empty-body]
async def unannotated(): ...  # type: ignore[no-untyped-def]
async def anything() -> Any: ...


class Provider:
    async def charge(self) -> Row: ...  # type: ignore[empty-body]

    async def __call__(self) -> Row: ...  # type: ignore[empty-body]


RETURNED: list[tuple[Any, Any]] = [
    (a_row, ROW),
    (by_name, ROW),
    (a_model, Model(row=ROW, names={"a"})),
    (nothing, None),
    (maybe, None),
    (maybe, ROW),
    (some, [ROW]),
    (Provider().charge, ROW),
    (Provider(), ROW),
    (functools.partial(functools.partial(Provider.charge), None), ROW),
    (unannotated, {"a": [1, "x", None, 2.5, 12345678901234567890123]}),
    (anything, "text"),
]
REFUSED: list[tuple[Any, Any, str]] = [
    (unannotated, ROW, "returned a Row, which JSON does not give back as it was"),
    (unannotated, (1, 2), "returned a tuple, which JSON does not give back as it was"),
    (unannotated, object(), "returned a object, which cannot be kept as JSON"),
    (a_row, {"id": "x"}, "returned a dict, which cannot be kept as JSON"),
]


def test_a_result_comes_back_as_what_it_was_and_an_amount_is_kept_as_a_text() -> None:
    for function, value in RETURNED:
        shape = shape_of(function)
        read = shape.read(json.loads(json.dumps(shape.kept(value))))
        assert (read, type(read)) == (value, type(value)), function
    assert shape_of(a_row).kept(ROW)["price"] == "1.10"


def test_what_would_come_back_as_something_else_is_refused_at_once() -> None:
    for function, value, says in REFUSED:
        with pytest.raises(PhaseMisuse, match=says):
            shape_of(function).kept(value)


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(PhaseMisuse):
        shape_of(number).read(shape_of(number).kept(float("nan")))


def test_a_result_of_another_version_that_cannot_be_read_says_so() -> None:
    with pytest.raises(PhaseMisuse, match="cannot be read back as what it is annotated to return"):
        shape_of(a_row).read({"id": "x"})


def test_an_annotation_that_means_nothing_says_so() -> None:
    async def local() -> "Nowhere": ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(PhaseMisuse, match="'Nowhere', means nothing in its module"):
        shape_of(local)


def test_a_type_that_pydantic_cannot_read_says_so() -> None:
    class Odd: ...

    async def odd() -> Odd: ...  # type: ignore[empty-body]

    with pytest.raises(PhaseMisuse, match="which pydantic cannot read back from JSON"):
        shape_of(odd)

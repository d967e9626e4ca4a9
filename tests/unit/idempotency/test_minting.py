"""Minted values: made once, the same on every attempt, and of the same type."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
import uuid_utils

from surefoot.idempotency.request.idempotent import Mint
from surefoot.idempotency.values import PhaseMisuse

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
ID = UUID("8e03978e-40d5-43dd-bc93-6894a57f9324")


def test_values_come_again_as_what_they_were() -> None:
    first = Mint({})
    minted = first.mint(
        {"id": lambda: "ch_1", "at": lambda: AT, "day": date(2026, 1, 2), "ref": ID, "price": Decimal("1.10"), "n": 3}
    )
    again = Mint(first.kept()).mint({"id": None, "at": None, "day": None, "ref": None, "price": None, "n": None})
    assert vars(again) == vars(minted)
    assert (again.id, again.at, again.day, again.ref) == ("ch_1", AT, date(2026, 1, 2), ID)
    assert (again.price, type(again.price)) == (Decimal("1.10"), Decimal)


def test_a_uuid_of_another_library_is_a_uuid() -> None:
    mint = Mint({})
    minted = mint.mint({"id": lambda: uuid_utils.UUID(str(ID))})
    assert minted.id == ID
    assert mint.resource == str(ID)


def test_a_function_is_called_once() -> None:
    calls: list[int] = []

    def made() -> str:
        calls.append(1)
        return f"id_{len(calls)}"

    mint = Mint({})
    assert mint.mint({"id": made}).id == "id_1"
    assert mint.mint({"id": made}).id == "id_1"
    assert Mint(mint.kept()).mint({"id": made}).id == "id_1"


def test_after_the_claim_was_kept_nothing_new_is_minted() -> None:
    mint = Mint({"id": "ch_1"})
    mint.is_closed = True
    assert mint.mint({"id": str}).id == "ch_1"
    with pytest.raises(PhaseMisuse, match="mint\\(\\) was asked for at, at2 when the claim had been kept"):
        mint.mint({"id": str, "at": datetime.now, "at2": datetime.now})


@pytest.mark.parametrize("value", [1.5, b"x", ["a"], {"a": 1}, object()])
def test_what_would_not_come_back_as_it_was_is_refused(value: object) -> None:
    with pytest.raises(PhaseMisuse, match=f"mint\\(\\) got a {type(value).__name__} for price"):
        Mint({}).mint({"price": lambda: value})


def test_the_layers_own_names_are_refused() -> None:
    with pytest.raises(PhaseMisuse, match="names that begin with"):
        Mint({}).mint({"$types": "x"})


def test_without_an_id_there_is_no_resource() -> None:
    mint = Mint({})
    mint.mint({"at": lambda: datetime.now(UTC)})
    assert mint.resource is None

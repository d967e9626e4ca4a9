"""What goes over the payments API. Amounts are whole numbers of the currency's minor unit; a float is refused."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from surefoot.events import Money
from surefoot.events.text import has_forbidden

LARGEST_AMOUNT = 99_999_999_99
"""Of one request, in minor units: whoever asks for more has mistaken the unit."""
Status = Literal["PENDING", "AUTHORIZED", "CAPTURED", "DECLINED", "VOIDED", "REFUNDED"]
RefundStatus = Literal["PENDING", "REFUNDED", "REFUSED"]

_EXAMPLE: dict[str, Any] = {"minor_units": 1999, "currency": "EUR"}


def _within_bounds(amount: Money) -> Money:
    if not 0 < amount.minor_units <= LARGEST_AMOUNT:
        raise ValueError(f"the amount must be from 1 to {LARGEST_AMOUNT} minor units")
    return amount


def _printable(text: str) -> str:
    if has_forbidden(text):
        raise ValueError("it has a control character, or another one that is no text: leave it out")
    return text


def _money_schema(least: int, most: int | None) -> dict[str, Any]:
    units: dict[str, Any] = {"type": "integer", "minimum": least}
    return {
        "type": "object",
        "description": "An amount as a whole number of the currency's minor unit: 1999 EUR is 19.99 EUR.",
        "properties": {
            "minor_units": units if most is None else {**units, "maximum": most},
            "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
        },
        "required": ["minor_units", "currency"],
        "example": _EXAMPLE,
    }


Amount = Annotated[Money, AfterValidator(_within_bounds), WithJsonSchema(_money_schema(1, LARGEST_AMOUNT))]
"""Asked for: more than nothing."""
Held = Annotated[Money, WithJsonSchema(_money_schema(0, None))]
"""Told: as much as there is."""
Change = Annotated[Money, WithJsonSchema(_money_schema(-(2**53) + 1, None))]
Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
ACCOUNT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
AccountName = Annotated[str, Field(pattern=ACCOUNT_NAME)]


class Asked(BaseModel):
    """What somebody wants: nothing else may be in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class ChargeAsked(Asked):
    amount: Amount
    description: Text | None = Field(None, description="For people. No card numbers, no personal data.")

    model_config = ConfigDict(json_schema_extra={"example": {"amount": _EXAMPLE, "description": "Order 7"}})


class Charge(Told):
    id: str
    amount: Held
    refunded: Held = Field(description="What was given back of it so far.")
    status: Status = Field(description="PENDING until the provider's answer is known.")
    reason: str | None = Field(None, description="Why it was declined or voided.")
    description: str | None = None
    gateway_txn_id: str | None = Field(None, description="The provider's own name for the charge.")
    created_at: datetime


class RefundAsked(Asked):
    charge_id: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_printable)]
    amount: Amount

    model_config = ConfigDict(
        json_schema_extra={"example": {"charge_id": "ch_0192f0c17a3e7c419d0a6f1f0d6f3b11", "amount": _EXAMPLE}}
    )


class Refund(Told):
    id: str
    charge_id: str
    amount: Held
    status: RefundStatus
    reason: str | None = Field(None, description="Why the provider refused it.")
    created_at: datetime


class TransferAsked(Asked):
    source: AccountName = Field(description="The account that gives.")
    target: AccountName = Field(description="The account that gets.")
    amount: Amount

    model_config = ConfigDict(
        json_schema_extra={"example": {"source": "main-EUR", "target": "savings", "amount": _EXAMPLE}}
    )


class Transfer(Told):
    id: str
    source: str
    target: str
    amount: Held
    balance: Held = Field(description="Of the account that gave, right after it.")
    created_at: datetime


class AccountAsked(Asked):
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    cap: Amount | None = Field(None, description="It never holds more than this.")

    model_config = ConfigDict(json_schema_extra={"example": {"currency": "EUR"}})


class Account(Told):
    id: str
    balance: Held
    cap: Held | None = None


class LedgerLine(Told):
    number: int = Field(description="Rising.")
    operation: str = Field(description="The charge, refund or transfer that made it.")
    change: Change
    balance: Held = Field(description="Right after it.")
    at: datetime


class LedgerLines(Told):
    lines: tuple[LedgerLine, ...] = Field(description="The last ones, the oldest of them first.")

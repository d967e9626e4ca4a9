"""What goes over the provider's HTTP API. Amounts are whole numbers of minor units with their currency."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from services.provider.behaviour import (
    LATE_MS,
    Behaviour,
    DeclineReason,
    Match,
    OfKey,
    OfOrder,
    OfShare,
    Operation,
    Rule,
)
from surefoot.events import Money

Name = Annotated[str, Field(min_length=1, max_length=200)]
Status = Literal["CAPTURED", "DECLINED", "VOIDED"]
Code = Literal["declined", "voided", "key_reused", "unknown_charge", "exceeds_captured", "request_reused", "invalid"]


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _positive(amount: Money) -> Money:
    if amount.minor_units <= 0:
        raise ValueError("the amount must be more than nothing")
    return amount


Amount = Annotated[Money, AfterValidator(_positive)]


class ChargeAsked(Message):
    order_id: Name
    amount: Amount


class VoidAsked(Message):
    key: Name = Field(description="The idempotency key that the charge was, or would have been, asked for with.")


class RefundAsked(Message):
    charge_id: Name
    refund_request_id: Name
    amount: Amount


class Charge(Message):
    key: str
    charge_id: str | None = Field(description="None for a key that was voided before any charge came.")
    order_id: str | None
    amount: Money | None
    refunded: Money | None
    status: Status
    reason: DeclineReason | None
    late: int = Field(description="How many charges came after the void, and were refused.")


class Void(Message):
    key: str
    charge_id: str | None
    refunded: Money | None = Field(description="What this void has given back; None if there was nothing.")


class Refund(Message):
    refund_id: str
    refund_request_id: str
    charge_id: str
    amount: Money


class Problem(Message):
    code: Code
    sentence: str
    reason: DeclineReason | None = None


class Sum(Message):
    currency: str
    charges: int
    captured: int
    refunded: int


class Totals(Message):
    """What the provider's books say, by currency, in minor units."""

    sums: tuple[Sum, ...]
    declined: int
    tombstones: int
    charged_twice: int = Field(description="Orders with money taken under more than one key.")


class MatchAsked(Message):
    order_id: Name | None = None
    key: Name | None = None
    share: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.order_id, self.key, self.share].count(None) != 2:
            raise ValueError("give one of order_id, key and share")
        return self


class BehaviourAsked(Message):
    match: MatchAsked
    behaviour: Behaviour
    operation: Operation = "charge"
    times: int = Field(1, ge=1, le=1_000_000, description="How often, for each key.")
    delay_ms: int = Field(LATE_MS, ge=0, le=600_000)
    reason: DeclineReason | None = None

    @model_validator(mode="after")
    def _declines_charges_only(self) -> Self:
        if self.behaviour == "decline" and self.operation != "charge":
            raise ValueError("only a charge can be declined")
        return self

    def rule(self, number: int) -> Rule:
        return Rule(
            f"rule:{number}",
            self._match(),
            self.behaviour,
            (self.operation,),
            times=self.times,
            delay_ms=self.delay_ms,
            reason=self.reason,
        )

    def _match(self) -> Match:
        if self.match.order_id is not None:
            return OfOrder(self.match.order_id)
        if self.match.key is not None:
            return OfKey(self.match.key)
        return OfShare(0.0, self.match.share or 0.0)

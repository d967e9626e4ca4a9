"""What a gateway's webhook says: its body, read strictly where we rely on it and left alone where we do not. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from services.payment.charge_news import News, NewStatus
from surefoot.errors import InvalidEvent
from surefoot.events import Money
from surefoot.events.text import has_forbidden

KINDS: dict[str, NewStatus] = {
    "payment.authorized": "AUTHORIZED",
    "payment.captured": "CAPTURED",
    "payment.declined": "DECLINED",
    "payment.refunded": "REFUNDED",
    "payment.voided": "VOIDED",
}
_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def _more_than_nothing(amount: Money) -> Money:
    if amount.minor_units <= 0:
        raise ValueError("the amount must be more than nothing")
    return amount


def _printable(text: str) -> str:
    if has_forbidden(text):
        raise ValueError("it has a control character, or another one that is no text")
    return text


def _in_our_time(moment: datetime) -> datetime:
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError("the time must be within this century or the next")
    return moment


Name = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,255}$")]
Amount = Annotated[Money, AfterValidator(_more_than_nothing)]
Moment = Annotated[AwareDatetime, AfterValidator(_in_our_time)]
Reason = Annotated[str, Field(max_length=200), AfterValidator(_printable)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Envelope(Part):
    """What every event has, of kinds that are ours and of others."""

    id: Name = Field(description="The gateway's own name for the event; the same on every resend.")
    type: Name


class Data(Part):
    gateway_txn_id: Name = Field(description="The gateway's own name for the charge.")
    charge_id: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,64}$")] | None = Field(
        None, description="Our id, if the gateway was given it and gives it back."
    )
    amount: Amount = Field(description="What is charged; of payment.refunded all that has been given back so far.")
    reason: Reason | None = None


class Body(Envelope):
    created: Moment = Field(description="ISO 8601, or seconds since 1970.")
    data: Data


@dataclass(frozen=True, slots=True)
class PaymentEvent:
    gateway: str
    event_id: str
    kind: str
    charge_id: str | None
    happened_at: datetime
    news: News
    gateway_txn_id: str
    amount: Money


@dataclass(frozen=True, slots=True)
class Foreign:
    """An event of a kind that is nothing to us."""

    event_id: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    sentence: str


def event_of(gateway: str, raw: bytes) -> PaymentEvent | Foreign | Unreadable:
    """Whatever the bytes are: an answer, and never an exception."""
    try:
        envelope = Envelope.model_validate_json(raw)
        if envelope.type not in KINDS:
            return Foreign(envelope.id)
        body = Body.model_validate_json(raw)
    except ValidationError as error:
        return Unreadable(f"The webhook's body cannot be used: {_first(error)}.")
    except InvalidEvent as error:  # money as a float, which pydantic does not take for a mistake of the sender's
        return Unreadable(f"The webhook's body cannot be used: {error}")
    data = body.data
    news = News(KINDS[body.type], data.gateway_txn_id, data.amount, data.reason)
    return PaymentEvent(
        gateway=gateway,
        event_id=body.id,
        kind=body.type,
        charge_id=data.charge_id,
        happened_at=body.created,
        news=news,
        gateway_txn_id=data.gateway_txn_id,
        amount=data.amount,
    )


def _first(error: ValidationError) -> str:
    """Where it is and what is wrong, without what was sent."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    what = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{where}: {what}" if where else what

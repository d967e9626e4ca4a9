"""Data about a person: marked where an event is declared, masked wherever it is shown."""

from typing import Annotated, Any, Literal

import orjson
import pytest
from pydantic import BaseModel, Field, field_serializer

from surefoot.cli.topics import line_of
from surefoot.consumer.dead_letter import diagnose
from surefoot.events import Catalogue, EventData, Money, Personal
from surefoot.events.json_schema import compare, export
from surefoot.events.masking import NotJson, masked, personal_texts, without
from surefoot.log.port import StoredRecord
from tests.support.corpus import each_of

catalogue = Catalogue(source="/tests")
topic = catalogue.topic("person.events")


class Address(BaseModel):
    name: Annotated[str, Personal]
    city: str


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: Annotated[str, Personal]


class Invoice(BaseModel):
    kind: Literal["invoice"] = "invoice"
    days: int


@catalogue.event("order.placed", topic=topic, key="order_id")
class OrderPlaced(EventData):
    order_id: str
    buyer: Annotated[str, Personal, Field(min_length=1)]
    total: Money
    ship_to: Address
    others: tuple[Address, ...] = ()
    notes: Annotated[dict[str, str], Personal] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    pays_by: Card | Invoice | None = None
    anything: Any = None


@catalogue.event("order.placed", version=2, topic=topic, key="order_id")
class OrderPlacedAnew(EventData):
    order_id: str
    buyer: str
    remark: Annotated[str | None, Personal] = None


@catalogue.event("order.shipped", topic=topic, key="order_id")
class OrderShipped(EventData):
    order_id: str


ORDER = {
    "order_id": "o-1",
    "buyer": "Ada Lovelace",
    "total": {"minor_units": 1999, "currency": "EUR"},
    "ship_to": {"name": "Ada", "city": "London"},
    "others": [{"name": "Charles", "city": "Paris"}],
    "notes": {"doorbell": "Byron"},
    "labels": {"gift": "yes"},
    "pays_by": {"kind": "card", "number": "4111"},
    "anything": {"free": [1, "x"]},
}


def shown(changed: dict[str, Any] | None = None, *, version: int | None = 1, name: str = "order.placed") -> Any:
    return masked(orjson.dumps({**ORDER, **(changed or {})}), name, version, catalogue)


def test_marked_fields_are_masked_and_the_others_are_shown() -> None:
    assert shown() == {
        "order_id": "o-1",
        "buyer": "•••",
        "total": {"minor_units": 1999, "currency": "EUR"},
        "ship_to": {"name": "•••", "city": "London"},
        "others": [{"name": "•••", "city": "Paris"}],
        "notes": "•••",
        "labels": {"gift": "yes"},
        "pays_by": {"kind": "card", "number": "•••"},
        "anything": {"free": [1, "x"]},
    }


def test_an_alternative_without_a_mark_is_shown() -> None:
    assert shown({"pays_by": {"kind": "invoice", "days": 30}})["pays_by"] == {"kind": "invoice", "days": 30}


def test_a_member_that_nobody_declared_is_masked() -> None:
    assert shown({"e_mail": "ada@example.org", "more": {"phone": ["1", None]}})["e_mail"] == "•••"
    assert shown({"more": {"phone": ["1", None]}})["more"] == {"phone": ["•••", None]}


@each_of(
    ("field", "value", "expected"),
    [
        ("ship_to", "Ada, London", "•••"),
        ("order_id", {"name": "Ada"}, {"name": "•••"}),
        ("order_id", ["Ada"], ["•••"]),
        ("order_id", 7, "•••"),
        ("total", "Ada", "•••"),
        ("others", {"name": "Ada"}, {"name": "•••"}),
        ("pays_by", {"number": "4111"}, {"number": "•••"}),
        ("buyer", None, None),
        ("buyer", {"name": "Ada"}, "•••"),
    ],
)
def test_a_value_of_another_kind_than_declared_is_masked(field: str, value: object, expected: object) -> None:
    assert shown({field: value})[field] == expected


def test_of_a_type_that_nobody_declared_everything_is_masked() -> None:
    assert masked(b'{"a": {"b": [1, true, null, "x"]}}', "order.unheard_of", 1, catalogue) == {
        "a": {"b": ["•••", "•••", None, "•••"]}
    }
    assert masked(b'{"order_id": "o-1"}', "order.placed", 3, catalogue) == {"order_id": "•••"}
    assert masked(b'"Ada"', None, None, catalogue) == "•••"


def test_data_without_a_version_are_masked_by_every_version_there_is() -> None:
    assert masked(b'{"order_id": "o-1", "buyer": "Ada", "remark": "for Ada"}', "order.placed", None, catalogue) == {
        "order_id": "o-1",
        "buyer": "•••",
        "remark": "•••",
    }


def test_each_version_has_its_own_marks() -> None:
    assert masked(b'{"order_id": "o-1", "buyer": "b-1", "remark": "x"}', "order.placed", 2, catalogue) == {
        "order_id": "o-1",
        "buyer": "b-1",
        "remark": "•••",
    }


@each_of("data", [b"", b"Ada", b'{"a": NaN}', b"[" * 101 + b"]" * 101, b'"\\ud800"', b"\xff"])
def test_what_is_no_json_cannot_be_shown(data: bytes) -> None:
    with pytest.raises(NotJson):
        masked(data, "order.placed", 1, catalogue)


def test_as_deep_as_is_shown_it_is_shown() -> None:
    assert masked(b"[" * 100 + b"]" * 100, None, None, catalogue) is not None


def test_the_mark_is_in_the_exported_schema_beside_the_reference_and_not_in_the_model_itself() -> None:
    document = export(catalogue)["order.placed.v1.json"]
    assert document["properties"]["buyer"]["x-personal"] is True
    assert document["properties"]["notes"]["x-personal"] is True
    assert "x-personal" not in document["properties"]["order_id"]
    assert document["$defs"]["Address"]["properties"]["name"]["x-personal"] is True


def test_a_mark_on_a_model_stands_beside_the_reference() -> None:
    class Parcel(EventData):
        sender: Annotated[Address, Personal]
        receiver: Address

    properties = Parcel.model_json_schema(mode="serialization")["properties"]
    assert properties["sender"] == {"$ref": "#/$defs/Address", "x-personal": True}
    assert properties["receiver"] == {"$ref": "#/$defs/Address"}


def test_marking_a_field_breaks_nobody() -> None:
    plain = {"type": "object", "properties": {"a": {"type": "string"}}}
    marked = {"type": "object", "properties": {"a": {"type": "string", "x-personal": True}}}
    assert compare(plain, marked) == []
    assert compare(marked, plain) == []


def test_the_mark_changes_nothing_in_what_is_valid() -> None:
    assert OrderPlaced.model_validate(ORDER).buyer == "Ada Lovelace"
    with pytest.raises(ValueError, match="at least 1"):
        OrderPlaced.model_validate({**ORDER, "buyer": ""})


def test_an_error_that_quotes_the_data_is_kept_without_what_is_personal() -> None:
    data = OrderPlaced.model_validate(ORDER)
    assert personal_texts(data) == ["Ada Lovelace", "Charles", "Byron", "4111", "Ada"]
    try:
        raise ValueError("Ada Lovelace of London pays with 4111")
    except ValueError as error:
        diagnosis = diagnose(error, "permanent", consumer="c", event_type="order.placed", data=data)
    assert diagnosis.error == "••• of London pays with •••"
    assert "Lovelace" not in diagnosis.stack
    assert "of London pays with •••" in diagnosis.stack


def test_of_data_that_cannot_even_be_written_the_error_is_not_quoted_at_all() -> None:
    @catalogue.event("buyer.odd", topic=topic, key=None)
    class Odd(EventData):
        buyer: Annotated[str, Personal]

        @field_serializer("buyer")
        def fail(self, _: str) -> str:
            raise ZeroDivisionError

    diagnosis = diagnose(
        KeyError("Ada"), "permanent", consumer="c", event_type="buyer.odd", data=Odd(buyer="Ada Lovelace")
    )
    assert (diagnosis.error, diagnosis.stack) == ("KeyError", "")


def test_data_without_marks_leave_an_error_as_it_is() -> None:
    assert personal_texts(OrderShipped(order_id="o-1")) == []
    assert without("order o-1 is lost", []) == "order o-1 is lost"


def record(name: str, value: bytes, **more: str) -> StoredRecord:
    told = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/t", "ce_type": name, **more}
    headers = tuple((header.replace("__", "-"), text.encode()) for header, text in told.items())
    return StoredRecord(
        topic="person.events", partition=0, offset=7, key=b"k", value=value, headers=headers, timestamp_ms=0
    )


def test_tail_masks_the_types_that_have_marks() -> None:
    version = {"ce_dataschema": "urn:surefoot:order.placed:2"}
    line = line_of(record("order.placed", b'{"order_id": "o-1", "remark": "Ada"}', **version), catalogue)
    assert line == '0/7  order.placed  k  {"order_id": "o-1", "remark": "•••"}'


def test_tail_shows_all_of_it_to_whoever_says_reveal() -> None:
    line = line_of(record("order.placed", b'{"order_id": "o-1", "buyer": "Ada"}'), None)
    assert line == '0/7  order.placed  k  {"order_id": "o-1", "buyer": "Ada"}'


def test_tail_masks_a_dead_letter_by_the_event_that_it_is_about() -> None:
    dead = record("dlq.dead_letter", b'{"order_id": "o-1", "buyer": "Ada"}', surefoot__event__type="order.placed")
    assert line_of(dead, catalogue) == '0/7  dlq.dead_letter  k  {"order_id": "o-1", "buyer": "•••"}'


def test_tail_shows_nothing_of_marked_data_that_are_no_json() -> None:
    assert line_of(record("order.placed", b"Ada"), catalogue) == '0/7  order.placed  k  "•••"'


def test_tail_shows_types_without_marks_as_they_are() -> None:
    line = line_of(record("order.shipped", b'{"order_id": "o-1", "new": 1}'), catalogue)
    assert line == '0/7  order.shipped  k  {"order_id": "o-1", "new": 1}'

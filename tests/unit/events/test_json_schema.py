"""The exported JSON Schemas say what is on the wire."""

import json

import jsonschema

from surefoot.events import Catalogue, EventData, Money, encode_data, new_event
from surefoot.events.json_schema import export, render
from tests.support.order_types import orders, placed


def test_there_is_one_document_per_type_and_version_in_order() -> None:
    assert list(export(orders)) == ["order.noted.v1.json", "order.placed.v1.json", "order.placed.v2.json"]


def test_a_document_says_whose_contract_it_is() -> None:
    document = export(orders)["order.placed.v2.json"]
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["$id"] == "urn:surefoot:order.placed:2"
    assert document["x-surefoot"] == {
        "type": "order.placed",
        "version": 2,
        "topic": "order.events",
        "source": "/orders",
    }
    assert document["required"] == ["order_id", "lines"]


def test_every_document_is_a_schema_of_its_draft() -> None:
    for document in export(orders).values():
        jsonschema.Draft202012Validator.check_schema(document)


def test_encoded_data_fit_their_schema() -> None:
    document = export(orders)["order.placed.v1.json"]
    data = json.loads(encode_data(new_event(placed(note="n", tags=["a"]))))
    jsonschema.Draft202012Validator(document).validate(data)


def test_the_text_is_stable() -> None:
    assert render({"b": [2, 1], "a": "ä"}) == '{\n  "a": "ä",\n  "b": [\n    2,\n    1\n  ]\n}\n'
    assert [render(each) for each in export(orders).values()] == [render(each) for each in export(orders).values()]


def test_a_whole_small_contract() -> None:
    catalogue = Catalogue(source="/payments")

    @catalogue.event("payment.captured", topic=catalogue.topic("payment.events"), key="order_id")
    class PaymentCaptured(EventData):
        order_id: str
        amount: Money

    assert export(catalogue)["payment.captured.v1.json"] == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:surefoot:payment.captured:1",
        "title": "PaymentCaptured",
        "type": "object",
        "properties": {
            "order_id": {"title": "Order Id", "type": "string"},
            "amount": {
                "title": "Money",
                "description": "An amount as a whole number of the currency's minor unit: 1999 EUR is 19.99 EUR.",
                "type": "object",
                "properties": {
                    "minor_units": {
                        "type": "integer",
                        "minimum": -9007199254740991,
                        "maximum": 9007199254740991,
                    },
                    "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
                },
                "required": ["minor_units", "currency"],
            },
        },
        "required": ["order_id", "amount"],
        "x-surefoot": {
            "type": "payment.captured",
            "version": 1,
            "topic": "payment.events",
            "source": "/payments",
        },
    }

"""Which changes of a contract break readers."""

import copy
from collections.abc import Callable
from typing import Any

from surefoot.events.json_schema import Change, compare, compare_sets
from tests.support.corpus import each_of

Document = dict[str, Any]

BASE: Document = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:surefoot:order.placed:1",
    "title": "OrderPlaced",
    "type": "object",
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
            "required": ["sku", "quantity"],
        },
        "Closed": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"a": {"type": "string"}},
        },
        "Node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}, "n": {"type": "integer"}},
        },
    },
    "properties": {
        "order_id": {"type": "string", "maxLength": 64, "title": "Order Id"},
        "placed_at": {"type": "string", "format": "date-time"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "minItems": 1},
        "first": {"$ref": "#/$defs/Line", "description": "The first."},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "closed": {"$ref": "#/$defs/Closed"},
        "chain": {"$ref": "#/$defs/Node"},
    },
    "required": ["order_id", "placed_at", "lines"],
    "x-surefoot": {"type": "order.placed", "version": 1, "topic": "order.events", "source": "/orders"},
}


def changed(change: Callable[[Document], object]) -> list[Change]:
    new = copy.deepcopy(BASE)
    change(new)
    return compare(BASE, new)


def test_the_same_contract_has_no_changes() -> None:
    assert changed(lambda new: None) == []


@each_of(
    "change",
    [
        lambda new: new.update(title="Other", description="Other", examples=[1]),
        lambda new: new["properties"]["order_id"].update(title="Id", description="x", examples=["a"], deprecated=True),
        lambda new: new["properties"]["note"].update(default="none"),
        lambda new: new["properties"]["mode"].update(enum=["slow", "fast"]),
        lambda new: new["properties"]["note"].update(anyOf=[{"type": "null"}, {"type": "string"}]),
        lambda new: new.update(required=["lines", "order_id", "placed_at"]),
        lambda new: new["properties"].update(first=new["$defs"]["Line"]),  # the same, no longer by reference
        lambda new: new["$defs"].update(Unused={"type": "string"}),
    ],
)
def test_words_for_people_and_order_do_not_count(change: Callable[[Document], object]) -> None:
    assert changed(change) == []


def test_a_new_optional_property_is_compatible() -> None:
    assert changed(lambda new: new["properties"].update(gift={"type": "boolean", "default": False})) == [
        Change("gift", "It is new and optional.", breaking=False)
    ]


def test_a_new_optional_property_deep_inside_is_compatible() -> None:
    changes = changed(lambda new: new["$defs"]["Line"]["properties"].update(gift={"type": "boolean"}))
    assert [change.breaking for change in changes] == [False] * len(changes)
    assert changes[0].path == "first.gift"


def test_a_new_optional_property_in_an_alternative_is_compatible() -> None:
    old = copy.deepcopy(BASE)
    old["properties"]["note"] = {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]}
    new = copy.deepcopy(old)
    new["$defs"]["Line"]["properties"]["gift"] = {"type": "boolean"}
    new["properties"]["note"]["anyOf"].reverse()
    assert {change.breaking for change in compare(old, new)} == {False}


@each_of(
    ("change", "path", "words"),
    [
        (lambda new: new["properties"].pop("mode"), "mode", "removed"),
        (lambda new: new["properties"]["order_id"].update(type="integer"), "order_id", "its type"),
        (lambda new: new["properties"]["order_id"].update(type=["string", "null"]), "order_id", "its type"),
        (lambda new: new["properties"]["placed_at"].update(format="date"), "placed_at", "its format"),
        (lambda new: new["properties"]["placed_at"].pop("format"), "placed_at", "its format"),
        (lambda new: new["properties"]["mode"]["enum"].append("never"), "mode", "its enum"),
        (lambda new: new["properties"]["mode"]["enum"].pop(), "mode", "its enum"),
        (lambda new: new["properties"]["order_id"].update(maxLength=65), "order_id", "its maxLength"),
        (lambda new: new["properties"]["order_id"].update(pattern="^o"), "order_id", "its pattern"),
        (lambda new: new["required"].remove("placed_at"), "placed_at", "became optional"),
        (lambda new: new["required"].append("mode"), "mode", "became required"),
        (lambda new: new["properties"]["lines"].update(minItems=2), "lines", "its minItems"),
        (lambda new: new["properties"]["lines"].update(items={"type": "string"}), "lines[]", "its type"),
        (lambda new: new["properties"]["lines"].pop("items"), "lines[]", "what it may be"),
        (
            lambda new: new["properties"]["labels"].update(additionalProperties={"type": "integer"}),
            "labels.*",
            "its type",
        ),
        (lambda new: new["properties"]["labels"].pop("additionalProperties"), "labels.*", "what it may be"),
        (lambda new: new["properties"]["pair"]["prefixItems"].pop(), "pair", "number of elements"),
        (lambda new: new["properties"]["pair"]["prefixItems"].reverse(), "pair[0]", "its type"),
        (lambda new: new["properties"]["note"]["anyOf"].pop(), "note", "alternatives"),
        (lambda new: new["properties"]["note"]["anyOf"].append({"type": "integer"}), "note", "alternatives"),
        (lambda new: new["properties"]["note"]["anyOf"][0].update(maxLength=5), "note", "its maxLength"),
        (lambda new: new["$defs"]["Line"]["properties"]["quantity"].update(minimum=0), "first.quantity", "its minimum"),
        (lambda new: new["$defs"]["Line"]["required"].pop(), "first.quantity", "became optional"),
        (lambda new: new["$defs"]["Closed"]["properties"].update(b={"type": "string"}), "closed.b", "refuse unknown"),
        (lambda new: new["$defs"]["Node"]["properties"]["n"].update(type="string"), "chain.n", "its type"),
        (
            lambda new: new["x-surefoot"].update(topic="other.events"),
            "",
            "topic changed from order.events to other.events",
        ),
        (lambda new: new["x-surefoot"].update(source="/other"), "", "source changed"),
    ],
)
def test_everything_else_is_breaking(change: Callable[[Document], object], path: str, words: str) -> None:
    changes = changed(change)
    assert [each for each in changes if each.path == path and words in each.sentence and each.breaking], changes


def test_a_new_required_property_is_breaking() -> None:
    def change(new: Document) -> None:
        new["properties"]["gift"] = {"type": "boolean"}
        new["required"].append("gift")

    assert changed(change) == [
        Change("gift", "It is new and required, and old events lack it: make it optional.", breaking=True)
    ]


def test_a_recursive_model_ends() -> None:
    assert changed(lambda new: new["$defs"]["Node"]["properties"].update(extra={"type": "string"})) == [
        Change("chain.extra", "It is new and optional.", breaking=False)
    ]


def test_a_vanished_contract_is_breaking_and_a_new_one_is_not() -> None:
    changes = compare_sets({"a.v1.json": BASE, "b.v1.json": BASE}, {"b.v1.json": BASE, "c.v1.json": BASE})
    assert [(change.path, change.breaking) for change in changes] == [("a.v1.json", True), ("c.v1.json", False)]


def test_changes_of_a_set_say_which_contract() -> None:
    new = copy.deepcopy(BASE)
    del new["properties"]["mode"]
    new["x-surefoot"]["topic"] = "x"
    changes = compare_sets({"a.v1.json": BASE}, {"a.v1.json": new})
    assert [change.path for change in changes] == ["a.v1.json", "a.v1.json mode"]

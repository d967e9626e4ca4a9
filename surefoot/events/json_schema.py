"""JSON Schemas of a catalogue, for people and programs that do not read Python.

One document per event type and version, of what is on the wire (so an amount is an object, a Decimal a string). The
text is stable: the same declarations give the same bytes, so that a difference in version control is a difference in
contract.
"""

import json
from typing import Any

from surefoot.events.catalogue import Catalogue
from surefoot.events.event_type import EventType

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def export(catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """File name → document, `order.placed.v1.json` and so on, sorted by type and version."""
    types = sorted(catalogue, key=lambda each: (each.name, each.version))
    return {f"{each.name}.v{each.version}.json": _document(each) for each in types}


def render(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _document(event_type: EventType[Any]) -> dict[str, Any]:
    schema = event_type.model.model_json_schema(by_alias=True, mode="serialization")
    return {
        **schema,
        "$schema": DIALECT,
        "$id": event_type.dataschema,
        "x-surefoot": {
            "type": event_type.name,
            "version": event_type.version,
            "topic": event_type.topic.name,
            "source": event_type.source,
        },
    }

"""Event data as they may be shown to whoever has no need to know the person: marked fields are •••.

What is shown must be known to be harmless. So a type that nobody declared, a member that its declaration has not, and a
value of another kind than was declared are masked as well: dead letters are often just such events.

`Personal` is the mark of data about a person, put on a field where an event is declared:

    class OrderPlaced(EventData):
        order_id: str
        buyer: Annotated[str, Personal]

In the exported JSON Schema it is `"x-personal": true`, so that programs that keep events elsewhere know too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from surefoot.events.catalogue import Catalogue
from surefoot.events.event_type import EventData, EventType, declaration_of
from surefoot.events.text import is_nested_deeper

MARK = "x-personal"


class Personal:
    """The mark itself: `Annotated[str, Personal]`. On a model or a list it stands for all that is in it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Beside a reference, never in what it refers to: the same model may be nobody's secret elsewhere.
        return {**handler(core_schema), MARK: True}


def is_personal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get(MARK) is True


MASK = "•••"
MIN_TEXT = 3
MAX_DEPTH = 100
"""Data nested deeper than this are nobody's contract, and not shown."""

_References = Mapping[str, Any]


class NotJson(ValueError):
    """The data are no JSON, or nested too deep: there is nothing of them that could be shown."""


def masked(data: bytes, event_type: str | None, version: int | None, catalogue: Catalogue) -> Any:
    """The data as JSON values. An event that says no version is masked by all there are of its type."""
    value = json_of(data)
    known = [each for each in catalogue if each.name == event_type and version in (None, each.version)]
    return _Masked([_schema(each) for each in known]).value(value) if known else all_masked(value)


def declares_personal(event_type: str, catalogue: Catalogue) -> bool:
    return any(each.name == event_type and _has_marks(each) for each in catalogue)


def personal_texts(data: EventData) -> list[str]:
    """What in these data is about a person, the longest first. Of declared data; too short a text is left out, because
    it would be found everywhere."""
    declared = declaration_of(type(data))
    if declared is None or not _has_marks(declared):
        return []
    plain = data.model_dump(mode="json", by_alias=True, warnings=False)
    shown = _Masked([_schema(declared)]).value(plain)
    return sorted({text for text in _hidden(plain, shown) if len(text) >= MIN_TEXT}, key=len, reverse=True)


def without(text: str, personal: Iterable[str]) -> str:
    """A text that may quote data, such as an error's, without what is about a person in them."""
    for each in personal:
        text = text.replace(each, MASK)
    return text


def json_of(data: bytes) -> Any:
    try:
        if is_nested_deeper(data, MAX_DEPTH):
            raise NotJson
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise NotJson from None


def all_masked(value: Any) -> Any:
    """Every value masked; what remains are the names of members and the number of elements."""
    if isinstance(value, dict):
        return {name: all_masked(each) for name, each in value.items()}
    if isinstance(value, list):
        return [all_masked(each) for each in value]
    return None if value is None else MASK


def _hidden(plain: Any, shown: Any) -> Iterator[str]:
    """The values in place of which something else is shown."""
    if isinstance(plain, dict):
        for name, each in plain.items():
            yield from _hidden(each, shown[name] if isinstance(shown, dict) else MASK)
    elif isinstance(plain, list):
        for at, each in enumerate(plain):
            yield from _hidden(each, shown[at] if isinstance(shown, list) else MASK)
    elif plain is not None and not isinstance(plain, bool) and shown == MASK:
        yield str(plain)


@lru_cache(maxsize=1024)
def _has_marks(event_type: EventType[Any]) -> bool:
    return f'"{MARK}":true'.encode() in orjson.dumps(_schema(event_type))


@lru_cache(maxsize=1024)
def _schema(event_type: EventType[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = event_type.model.model_json_schema(by_alias=True, mode="serialization")
    return schema


class _Masked:
    """A walk through a value and all the schemas it may be of. Personal by one of them is personal."""

    def __init__(self, roots: Sequence[dict[str, Any]]) -> None:
        self._roots = [(root, root.get("$defs", {})) for root in roots]

    def value(self, value: Any) -> Any:
        return self._shown(value, self._roots)

    def _shown(self, value: Any, schemas: Sequence[tuple[Any, _References]]) -> Any:
        alternatives = list(_alternatives(schemas))
        if any(is_personal(schema) for schema, _ in alternatives):
            return None if value is None else MASK
        fitting = [(schema, defs) for schema, defs in alternatives if _fits(value, schema)]
        if not fitting:
            return all_masked(value)
        if isinstance(value, dict):
            return {name: self._shown(each, list(_members(fitting, name))) for name, each in value.items()}
        if isinstance(value, list):
            return [self._shown(each, list(_elements(fitting, at))) for at, each in enumerate(value)]
        return value


def _alternatives(schemas: Sequence[tuple[Any, _References]]) -> Iterator[tuple[Any, _References]]:
    """Every schema that a value of these may be of, references followed. A mark beside a reference comes along."""
    for schema, defs in schemas:
        if not isinstance(schema, dict):
            yield schema, defs
            continue
        parts = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
        if "$ref" in schema:
            parts.append(defs.get(str(schema["$ref"]).removeprefix("#/$defs/"), False))
        if not parts or is_personal(schema):
            yield schema, defs
        yield from _alternatives([(part, defs) for part in parts])


def _members(schemas: Sequence[tuple[Any, _References]], name: str) -> Iterator[tuple[Any, _References]]:
    for schema, defs in schemas:
        if schema is True or not schema.keys() & {"properties", "additionalProperties", "type"}:
            yield True, defs  # declared as anything at all
        elif name in schema.get("properties", ()):
            yield schema["properties"][name], defs
        elif "additionalProperties" in schema:
            yield schema["additionalProperties"], defs


def _elements(schemas: Sequence[tuple[Any, _References]], at: int) -> Iterator[tuple[Any, _References]]:
    for schema, defs in schemas:
        if schema is True:
            yield True, defs
        elif at < len(schema.get("prefixItems", ())):
            yield schema["prefixItems"][at], defs
        else:
            yield schema.get("items", True), defs


def _fits(value: Any, schema: Any) -> bool:
    """Whether a value is of the kind that was declared. Of another kind, nobody knows what is in it."""
    if isinstance(schema, bool):
        return schema
    kinds = schema.get("type")
    if kinds is None:
        return value in schema["enum"] if "enum" in schema else value == schema.get("const", value)
    return bool(_kinds(value) & set([kinds] if isinstance(kinds, str) else kinds))


def _kinds(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if float(value).is_integer() else {"number"}
    if value is None:
        return {"null"}
    return {"string"} if isinstance(value, str) else {"object"} if isinstance(value, dict) else {"array"}

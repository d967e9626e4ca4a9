"""JSON Schemas of a catalogue, for people and programs that do not read Python, and whether a change breaks readers.

There is one document per event type and version, of what is on the wire (so an amount is an object, a Decimal a
string). The same declarations give the same bytes, so that a difference in version control is a difference in contract.

Within one version old readers must take new events and new readers old ones, because both are on the topic at once and
dead letters come back after weeks. Only one change keeps both: adding an optional property. Everything else is breaking
and needs a new version. Texts for people (titles, descriptions, examples, defaults) do not count.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


Schema = Mapping[str, Any]

_FOR_PEOPLE = frozenset(
    {"title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly", "$comment"}
    | {"$id", "$schema", "$defs", "$ref", "x-surefoot"}  # handled by themselves
    | {"x-personal"}  # decides who may see a value, not which are valid
)
_WALKED = frozenset(
    {"properties", "required", "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf"}
)
_UNORDERED = frozenset({"enum", "type"})


@dataclass(frozen=True)
class Change:
    path: str
    """Where: `order.placed.v1.json lines[].sku`, empty for a document as a whole."""
    sentence: str
    breaking: bool


def compare(old: Schema, new: Schema) -> list[Change]:
    """What changed between two documents of one event type and version."""
    return [*_identity(old, new), *_Comparison(old, new).node(old, new, "")]


def compare_sets(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> list[Change]:
    """What changed between two exports, by file name."""
    changes: list[Change] = []
    for name in sorted({*old, *new}):
        if name not in new:
            sentence = "The contract was removed, and its events are still on the topic: keep its declaration."
            changes.append(Change(name, sentence, breaking=True))
        elif name not in old:
            changes.append(Change(name, "The contract is new.", breaking=False))
        else:
            found = compare(old[name], new[name])
            changes += [Change(f"{name} {each.path}".rstrip(), each.sentence, each.breaking) for each in found]
    return changes


def _identity(old: Schema, new: Schema) -> Iterator[Change]:
    before, after = old.get("x-surefoot", {}), new.get("x-surefoot", {})
    for what in ("type", "version", "topic", "source"):
        if before.get(what) != after.get(what):
            yield Change(
                "",
                f"The {what} changed from {before.get(what)} to {after.get(what)}: readers look for these events where "
                "they were, and know them by source and id. Declare a new version or type.",
                breaking=True,
            )


class _Comparison:
    """A walk through two documents side by side. It remembers pairs of references, so that recursive models end."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old_root, self._new_root = old, new
        self._seen: set[tuple[str, str]] = set()

    def node(self, old: Any, new: Any, path: str) -> Iterator[Change]:
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            if old != new:
                yield _changed(path, "what it may be")
            return
        references = (str(old.get("$ref")), str(new.get("$ref")))
        if "$ref" in old and "$ref" in new:
            if references in self._seen:
                return
            self._seen.add(references)
        old, new = _resolve(old, self._old_root), _resolve(new, self._new_root)
        yield from _keywords(old, new, path)
        yield from self._properties(old, new, path)
        yield from self._contents(old, new, path)
        for keyword in ("anyOf", "oneOf", "allOf"):
            yield from self._branches(old.get(keyword, []), new.get(keyword, []), path)

    def _properties(self, old: Schema, new: Schema, path: str) -> Iterator[Change]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed_before, needed_after = set(old.get("required", [])), set(new.get("required", []))
        for name in sorted({*before, *after}):
            where = f"{path}.{name}" if path else name
            if name not in after:
                yield Change(where, "It was removed, and readers of this version may use it.", breaking=True)
            elif name not in before:
                yield _added(where, name in needed_after, old.get("additionalProperties") is False)
            else:
                if (name in needed_before) != (name in needed_after):
                    became = (
                        "required, and old events lack it"
                        if name in needed_after
                        else "optional, and readers rely on it"
                    )
                    yield Change(where, f"It became {became}.", breaking=True)
                yield from self.node(before[name], after[name], where)

    def _contents(self, old: Schema, new: Schema, path: str) -> Iterator[Change]:
        """The elements of arrays and the values of maps."""
        for keyword, suffix in (("items", "[]"), ("additionalProperties", ".*")):
            if keyword in old or keyword in new:
                # An absent keyword means that anything goes, which the schema `true` says as well.
                yield from self.node(old.get(keyword, True), new.get(keyword, True), path + suffix)
        before, after = old.get("prefixItems", []), new.get("prefixItems", [])
        if len(before) != len(after):
            yield _changed(path, "its number of elements")
            return
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from self.node(one, other, f"{path}[{at}]")

    def _branches(self, old: list[Schema], new: list[Schema], path: str) -> Iterator[Change]:
        """Alternatives in any order: each old one must have a new one that breaks nothing."""
        left, unmatched = list(new), []
        for branch in old:
            for candidate in left:
                changes = self._try(branch, candidate, path)
                if not any(change.breaking for change in changes):
                    left.remove(candidate)
                    yield from changes
                    break
            else:
                unmatched.append(branch)
        if len(unmatched) == len(left) == 1:
            yield from self.node(unmatched[0], left[0], path)
        elif unmatched or left:
            yield _changed(path, "the alternatives it may be")

    def _try(self, old: Schema, new: Schema, path: str) -> list[Change]:
        trial = _Comparison(self._old_root, self._new_root)
        trial._seen = set(self._seen)
        return list(trial.node(old, new, path))


def _resolve(schema: Schema, root: Schema) -> Schema:
    """The schema that a local reference names, with what stands beside the reference."""
    while (reference := str(schema.get("$ref", ""))).startswith("#/$defs/"):
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        schema = {**root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {}), **beside}
    return schema


def _keywords(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    """Types, formats, enumerations and constraints: whatever decides which values are valid."""
    for keyword in sorted({*old, *new} - _FOR_PEOPLE - _WALKED):
        before, after = old.get(keyword), new.get(keyword)
        if keyword in _UNORDERED:
            before, after = _sorted(before), _sorted(after)
        if keyword == "discriminator":  # its mapping follows from the alternatives, which are walked
            before, after = (before or {}).get("propertyName"), (after or {}).get("propertyName")
        if before != after:
            yield _changed(path, f"its {keyword}")


def _sorted(value: Any) -> Any:
    return sorted(map(repr, value)) if isinstance(value, list) else [repr(value)]


def _added(where: str, required: bool, closed: bool) -> Change:
    if required:
        return Change(where, "It is new and required, and old events lack it: make it optional.", breaking=True)
    if closed:
        return Change(where, "It is new, and readers of this version refuse unknown members here.", breaking=True)
    return Change(where, "It is new and optional.", breaking=False)


def _changed(path: str, what: str) -> Change:
    return Change(path, f"A change of {what}: some events are valid by one schema only.", breaking=True)

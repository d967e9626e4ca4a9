"""Ids and times that an answer will carry: made once, and the same on every attempt. Pure.

They are kept as JSON with the claim. Which of them were no plain JSON is kept beside them, so that they come back as
what they were.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from surefoot.idempotency.values import PhaseMisuse

TYPES = "$types"
"""The reserved name under which the types are kept."""
RESOURCE = "id"
"""The name of what a client may look for when the outcome is unknown."""

_WRITERS: dict[str, Callable[[Any], str]] = {
    "datetime": datetime.isoformat,
    "date": date.isoformat,
    "UUID": str,  # also that of uuid_utils
    "Decimal": str,
}
_READERS: dict[str, Callable[[str], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "UUID": UUID,
    "Decimal": Decimal,
}


class Minted(SimpleNamespace):
    """What was minted, by name."""


class Mint:
    """What one request has minted, in this attempt or an earlier one."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = dict(kept)
        self._types: dict[str, str] = dict(self._kept.pop(TYPES, {}))
        self.is_closed = False
        """Whether the claim is kept: what is minted now would not be durable before it is used."""

    @property
    def resource(self) -> str | None:
        value = self._kept.get(RESOURCE)
        return None if value is None else str(value)

    def kept(self) -> dict[str, Any]:
        return {**self._kept, TYPES: self._types} if self._types else dict(self._kept)

    def mint(self, factories: Mapping[str, Any]) -> Minted:
        new = [name for name in factories if name not in self._kept]
        if new and self.is_closed:
            raise PhaseMisuse(
                f"mint() was asked for {', '.join(new)} when the claim had been kept, without it: a resumed request "
                "would get another value. Mint everything before the first phase or call, also in a new version of "
                "the handler."
            )
        for name in new:
            self._add(name, factories[name])
        return Minted(**{name: self._read(name) for name in factories})

    def _add(self, name: str, factory: Any) -> None:
        if name.startswith("$"):
            raise PhaseMisuse(f"{name!r} cannot be minted: names that begin with $ are kept for the layer.")
        value = factory() if callable(factory) else factory
        if value is None or type(value) in (str, int, bool):
            self._kept[name] = value
            return
        kind = type(value).__name__
        if kind not in _WRITERS:
            raise PhaseMisuse(
                f"mint() got a {kind} for {name}. It takes texts, whole numbers, booleans, datetimes, "
                "dates, UUIDs, Decimals and None, or functions that return them."
            )
        self._kept[name] = _WRITERS[kind](value)
        self._types[name] = kind

    def _read(self, name: str) -> Any:
        value, kind = self._kept[name], self._types.get(name)
        return value if kind is None else _READERS[kind](value)

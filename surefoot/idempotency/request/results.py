"""What phases and calls return, as JSON and back.

A result takes the way through JSON on the first run too, so that a handler sees the same value, of the same type, when
it is resumed: the type that the function is annotated to return.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from surefoot.events.text import has_non_finite
from surefoot.idempotency.values import PhaseMisuse

_UNANNOTATED = object()
_MOST_SHAPES = 1024


class Shape:
    """How the results of one function are kept."""

    __slots__ = ("_adapter", "_name")

    def __init__(self, name: str, adapter: TypeAdapter[Any] | None) -> None:
        self._name = name
        self._adapter = adapter

    @property
    def is_typed(self) -> bool:
        return self._adapter is not None

    def kept(self, value: Any) -> Any:
        """As plain JSON values."""
        try:
            text = to_json(value) if self._adapter is None else self._adapter.dump_json(value, warnings="error")
        except PydanticSerializationError as error:
            raise self._misuse(value, f"which cannot be kept as JSON ({error})") from None
        if has_non_finite(text):
            raise self._misuse(value, "with a number that JSON does not have (NaN or Infinity)")
        plain = from_json(text)
        if self._adapter is None and plain != value:
            raise self._misuse(value, "which JSON does not give back as it was")
        return plain

    def read(self, kept: Any) -> Any:
        """What was kept, in the type of the annotation."""
        if self._adapter is None:
            return kept
        try:
            return self._adapter.validate_json(to_json(kept))
        except ValidationError as error:
            raise PhaseMisuse(
                f"What {self._name} returned is kept as JSON and cannot be read back as what it is annotated to return "
                f"({error.error_count()} error(s), the first: {error.errors(include_input=False)[0]['msg']}). Annotate "
                "it with a type that survives JSON, and keep reading what earlier versions of it returned."
            ) from None

    def _misuse(self, value: Any, why: str) -> PhaseMisuse:
        return PhaseMisuse(
            f"{self._name} returned a {type(value).__name__}, {why}. Annotate its return type, and return a dataclass, "
            "a pydantic model, or what JSON has."
        )


def shape_of(function: Callable[..., Any]) -> Shape:
    """The shape of what a function returns."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", repr(function))
    annotation = _returned(function, name)
    if annotation is _UNANNOTATED or annotation is Any:
        return Shape(name, None)
    try:
        return Shape(name, _adapter(annotation))
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise PhaseMisuse(
            f"{name} is annotated to return {annotation}, which pydantic cannot read back from JSON ({error}). "
            "Annotate it with a dataclass, a pydantic model, or what JSON has."
        ) from None


@lru_cache(_MOST_SHAPES)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    """By the annotation, not by the function: one that is defined within a handler is another on every request."""
    return TypeAdapter(annotation)


def _returned(function: Callable[..., Any], name: str) -> Any:
    if not inspect.isroutine(function):
        function = type(function).__call__  # an object that can be called
    annotation = getattr(function, "__annotations__", {}).get("return", _UNANNOTATED)
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(function, "__globals__", {}))  # noqa: S307 - an annotation of the app's own
    except Exception:
        raise PhaseMisuse(
            f"The return annotation of {name}, {annotation!r}, means nothing in its module. Define the type there."
        ) from None

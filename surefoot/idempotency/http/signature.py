"""The signature that a framework sees of an idempotent handler: without the parameter that is ours to fill in.

What cannot be made idempotent is refused here, when the module is loaded, and not by the first request.
"""

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

from surefoot.errors import ConfigurationError
from surefoot.idempotency.request.idempotent import Idempotent
from surefoot.idempotency.settings import Route

_STREAM_CLASSES = frozenset({"StreamingResponse", "EventSourceResponse", "ServerSentEvent", "Stream"})
_STREAM_ORIGINS = frozenset({AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterator})


def handler_signature(handler: Callable[..., Any], route: Route) -> tuple[inspect.Signature, str | None]:
    """What the framework sees, and the name of our parameter; ConfigurationError if it cannot be idempotent."""
    name = getattr(handler, "__qualname__", repr(handler))
    if not inspect.iscoroutinefunction(handler):
        raise ConfigurationError(
            f"{name} cannot be idempotent: it is no async function. Write it as `async def`; one that yields is a "
            "stream, which cannot be stored before it is sent."
        )
    signature = _resolved(handler)
    if _is_stream(signature.return_annotation):
        raise ConfigurationError(
            f"{name} cannot be idempotent: it answers with a stream, and an answer is stored whole before it is sent. "
            "Answer in one piece, or leave @idempotent away."
        )
    ours = [found for found in signature.parameters.values() if found.annotation is Idempotent]
    if len(ours) > 1 or any(found.kind is found.POSITIONAL_ONLY for found in ours):
        raise ConfigurationError(
            f"{name} should have one parameter that is annotated Idempotent, which takes a keyword."
        )
    if not ours and route.effect == "outside":
        raise ConfigurationError(
            f'{name} has effect="outside" and no parameter that is annotated Idempotent, so it cannot call a provider '
            "under a key that every attempt shares. Add one: request: Idempotent."
        )
    seen = [found for found in signature.parameters.values() if found not in ours]
    return signature.replace(parameters=seen), ours[0].name if ours else None


def annotations(signature: inspect.Signature) -> dict[str, Any]:
    """As a function with this signature would have them."""
    found = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    found["return"] = signature.return_annotation
    return {name: annotation for name, annotation in found.items() if annotation is not inspect.Signature.empty}


def _resolved(handler: Callable[..., Any]) -> inspect.Signature:
    """With types in place of their names, as far as they can be found: the framework looks them up elsewhere."""
    signature = inspect.signature(handler)
    names = {**getattr(handler, "__globals__", {}), **_nonlocals(handler)}
    parameters = [found.replace(annotation=_type(found.annotation, names)) for found in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=_type(signature.return_annotation, names))


def _nonlocals(handler: Callable[..., Any]) -> dict[str, Any]:
    """What is around it, as far as that is there yet: a factory may define below what its handler uses."""
    free = getattr(getattr(handler, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(free, getattr(handler, "__closure__", None) or (), strict=True):
        with suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _type(annotation: Any, names: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)  # noqa: S307 - an annotation of the app's own
    except Exception:
        return Idempotent if annotation.rpartition(".")[2] == Idempotent.__name__ else annotation


def _is_stream(annotation: Any) -> bool:
    if typing.get_origin(annotation) in _STREAM_ORIGINS:
        return True
    return inspect.isclass(annotation) and any(base.__name__ in _STREAM_CLASSES for base in annotation.__mro__)

"""Outside calls, as values: the key they are made under, and what is kept for them until they are made. Pure."""

from typing import Any
from uuid import NAMESPACE_URL, uuid5

import orjson
from pydantic_core import PydanticSerializationError, to_json

from surefoot.consumer.failures import Permanent
from surefoot.consumer.handlers import Prepare
from surefoot.consumer.identity import inbox_identity
from surefoot.events import Event
from surefoot.events.commands import Command


def call_keys(consumer: str, event: Event[Any], command: Command | None) -> tuple[str, str]:
    """The key of a call, and of the call that it undoes. They depend on the event or, for a command, on the saga's
    step, and not on the attempt or the machine: the provider sees at once that it has seen them before."""
    if command is None:
        key = _uuid("event", consumer, *inbox_identity(event.source, event.id))
        return key, key
    step = (command.saga_id, command.step)
    return _uuid("command", *step, command.direction), _uuid("command", *step, "do")


def prepared_json(given: object, prepare: Prepare) -> str:
    """What `prepare` returned, as it is kept."""
    try:
        kept = to_json(given)
        orjson.loads(kept)  # NaN and Infinity: Postgres would refuse them, and the error would be nobody's
        return kept.decode()
    except (PydanticSerializationError, orjson.JSONDecodeError):
        name = getattr(prepare, "__name__", repr(prepare))
        raise Permanent(
            f"{name} returned a {type(given).__name__}, which cannot be kept as JSON until the call is made: return a "
            "dict, a list, a text, a number, a pydantic model, or None."
        ) from None


def _uuid(*names: str) -> str:
    return str(uuid5(NAMESPACE_URL, ":".join(("surefoot", *names))))

"""Failures that a test plans: this function, on that call, raises instead of running."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from surefoot.consumer import Consumer
from surefoot.consumer.handlers import Handler, OutsideHandler
from surefoot.testing.consumer_records import KitMisuse


@dataclass(slots=True)
class _Fault:
    calls_before: int
    times: int
    error: Exception


class Faults:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._planned: dict[str, list[_Fault]] = {}

    def plan(self, name: str, *, on_call: int, times: int, error: Exception) -> None:
        known = sorted({name for handler in self._consumer.handlers for name in _functions(handler)})
        if name not in known:
            raise KitMisuse(f"{self._consumer.name} has no function {name} to fail: it has {', '.join(known)}.")
        if on_call < 1 or times < 1:
            raise KitMisuse(f"fail(on_call={on_call}, times={times}): both are numbers from 1 up.")
        self._planned.setdefault(name, []).append(_Fault(on_call - 1, times, error))

    async def call(self, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        """Call a function of the consumer's, unless it is to fail now."""
        struck: Exception | None = None
        for fault in self._planned.get(name_of(function), ()):
            if fault.calls_before > 0:
                fault.calls_before -= 1
            elif fault.times > 0:
                fault.times -= 1
                struck = struck or fault.error
        if struck is not None:
            raise struck
        return await function(*arguments)


def _functions(handler: Handler) -> list[str]:
    if not isinstance(handler, OutsideHandler):
        return [handler.name]
    return [handler.name, name_of(handler.call), *([name_of(handler.prepare)] if handler.prepare else [])]


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", repr(function)))

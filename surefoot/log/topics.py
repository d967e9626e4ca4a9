"""What a publisher knows about topics, believed for some seconds, so that publishing costs no question per batch; and
whether a topic is as the catalogue wants it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from surefoot.log.port import TopicSpec

T = TypeVar("T")


@dataclass(slots=True)
class _Known(Generic[T]):
    topic: T | None = None
    until: float = 0.0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    questions: int = 0
    failure: Exception | None = None
    """How the last question ended, if it failed."""


class TopicCache(Generic[T]):
    def __init__(self, ask: Callable[[Sequence[str]], Awaitable[Mapping[str, T]]], keep: timedelta) -> None:
        self._ask = ask
        self._keep_s = keep.total_seconds()
        self._known: dict[str, _Known[T]] = {}

    async def get(self, name: str) -> T | None:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Known()
        if time.monotonic() >= known.until:
            before = known.questions
            async with known.asking:  # many partitions, one question
                if known.failure is not None and known.questions != before:
                    # It failed while we waited for it. Asking again, one waiter after the other, would cost each of
                    # them a request timeout more than the one before it.
                    raise known.failure
                if time.monotonic() >= known.until:
                    await self._refresh(name, known)
        return known.topic

    def forget(self, name: str) -> None:
        """After a refusal or an outage: ask again, the topic may have been changed or deleted."""
        if name in self._known:
            self._known[name].until = 0.0

    async def _refresh(self, name: str, known: _Known[T]) -> None:
        known.failure = None
        try:
            known.topic = (await self._ask([name])).get(name)
        except Exception as error:
            known.failure = error
            raise
        finally:
            known.questions += 1
        # That a topic is missing is not believed for a moment: whoever creates it expects the next publish to work.
        known.until = time.monotonic() + self._keep_s if known.topic is not None else 0.0


def compare(wanted: TopicSpec, found: TopicSpec | None) -> list[str]:
    """Sentences that say what is wrong and what to do; none if all is well."""
    if found is None:
        return [f"The topic {wanted.name} does not exist. Run: surefoot topics create"]
    problems = []
    if found.partitions != wanted.partitions:
        problems.append(
            f"The topic {wanted.name} has {found.partitions} partitions, the catalogue says {wanted.partitions}. "
            "The number is fixed once there is data, because changing it moves keys to other partitions and breaks "
            f"their order: declare {found.partitions}, or make a new topic."
        )
    if found.retention != wanted.retention:
        problems.append(
            f"The topic {wanted.name} keeps records {found.retention}, the catalogue says {wanted.retention}. "
            "Set retention.ms on the topic, or change the declaration."
        )
    if found.max_record_bytes < wanted.max_record_bytes:
        problems.append(
            f"The topic {wanted.name} takes records up to {found.max_record_bytes:,} bytes, the catalogue promises "
            f"{wanted.max_record_bytes:,}: larger events would be FAILED by the relay. "
            "Raise max.message.bytes on the topic."
        )
    return problems

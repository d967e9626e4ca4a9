"""Many ask about a topic at once: one question, and its answer, or its failure, is everybody's."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from surefoot.errors import LogUnavailable
from surefoot.log.topics import TopicCache

KEEP = timedelta(minutes=1)


class Broker:
    """Answers when it is told to: a frozen broker, as seen from here."""

    def __init__(self) -> None:
        self.asked = 0
        self.down = True
        self.answer_now = asyncio.Event()

    async def ask(self, names: Sequence[str]) -> Mapping[str, str]:
        self.asked += 1
        await self.answer_now.wait()
        if self.down:
            raise LogUnavailable(f"question {self.asked} was not answered")
        return {name: f"topic {name}" for name in names}


async def waiting(cache: TopicCache[str], count: int) -> list[asyncio.Task[str | None]]:
    tasks = [asyncio.create_task(cache.get("t")) for _ in range(count)]
    await asyncio.sleep(0)  # each runs up to its first wait
    return tasks


async def test_all_who_waited_for_a_question_get_its_failure() -> None:
    broker = Broker()
    tasks = await waiting(TopicCache(broker.ask, KEEP), 5)

    broker.answer_now.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [str(outcome) for outcome in outcomes] == ["question 1 was not answered"] * 5
    assert broker.asked == 1


async def test_who_comes_after_a_failure_asks_again() -> None:
    broker = Broker()
    broker.answer_now.set()
    cache = TopicCache(broker.ask, KEEP)
    with pytest.raises(LogUnavailable):
        await cache.get("t")

    broker.down = False

    assert await cache.get("t") == "topic t"
    assert broker.asked == 2


async def test_all_who_waited_for_a_question_get_its_answer() -> None:
    broker = Broker()
    broker.down = False
    tasks = await waiting(TopicCache(broker.ask, KEEP), 5)

    broker.answer_now.set()

    assert await asyncio.gather(*tasks) == ["topic t"] * 5
    assert broker.asked == 1


async def test_when_the_one_who_asks_is_cancelled_the_next_one_asks() -> None:
    broker = Broker()
    broker.down = False
    first, *others = await waiting(TopicCache(broker.ask, KEEP), 3)

    first.cancel()
    broker.answer_now.set()

    assert await asyncio.gather(*others) == ["topic t"] * 2
    assert broker.asked == 2

"""Cases and what they expect. A case is a function that talks to a server and fails with a sentence."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.blackbox.idempotency.asking import Ask
from tests.blackbox.idempotency.reply import Reply
from tests.blackbox.idempotency.server import Server

Play = Callable[[Server], Awaitable[None]]


class CaseFailed(Exception):
    """The target does not do what the case expects; the sentence says what it does."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    play: Play

    @property
    def sentence(self) -> str:
        return self.name.replace("_", " ")


CASES: dict[str, Case] = {}


def case(play: Play) -> Play:
    """Put a function among the cases, under its name."""
    _add(play.__name__, play)
    return play


def cases(play: Callable[..., Awaitable[None]], rows: Mapping[str, tuple[Any, ...]]) -> None:
    """Put a function among the cases once for each row: the name, and what it is called with behind the server."""
    for name, given in rows.items():
        _add(name, lambda server, given=given: play(server, *given))  # type: ignore[misc]


def _add(name: str, play: Play) -> None:
    assert name not in CASES, f"two cases are called {name}"
    CASES[name] = Case(name, play)


def expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise CaseFailed(otherwise)


def expect_status(reply: Reply, *statuses: int) -> Reply:
    wanted = " or ".join(str(status) for status in statuses)
    expect(reply.status in statuses, f"expected {wanted}, got {reply}")
    return reply


def expect_first(reply: Reply, status: int = 201) -> Reply:
    """An answer of the work itself, not given before."""
    expect_status(reply, status)
    expect(reply.replayed is None, f"an answer that was not there before is called a replay: {reply}")
    return reply


def expect_again(first: Reply, again: Reply) -> None:
    """The same answer, and it says that it was given before. (That headers are the same as well has its own cases, so
    that a server without them does not fail all the others.)"""
    expect(again.status == first.status, f"the status was {first.status}, and now it is {again}")
    expect(again.body == first.body, f"the body was {first.body[:60]!r}, and now it is {again.body[:60]!r}")
    expect(again.replayed == "true", f"a replay has {again.replayed!r} in the header that should say true")


def expect_same_headers(first: Reply, again: Reply) -> None:
    """The order counts among lines of one name, and of no others."""
    for name in dict.fromkeys(name for name, _ in (*first.headers, *again.headers)):
        was, is_ = first.all(name), again.all(name)
        expect(was == is_, f"{name} was {was}, and now it is {is_}")


async def expect_counts(server: Server, ask: Ask, *, runs: int, effects: int) -> None:
    counted = await server.counted(ask)
    seen = f"it ran {counted.runs} times with {counted.effects} effects"
    expect((counted.runs, counted.effects) == (runs, effects), f"{seen}; expected {runs} and {effects}")


def expect_problem(reply: Reply, *statuses: int) -> Reply:
    """A refusal in the form of RFC 9457."""
    expect_status(reply, *statuses)
    said = reply.json
    media_type = reply.header("content-type").partition(";")[0]
    expect(media_type == "application/problem+json", f"the refusal is {media_type}, not application/problem+json")
    expect(said.get("status") == reply.status, f"the problem says status {said.get('status')}, sent is {reply.status}")
    for member in ("type", "title", "detail"):
        expect(isinstance(said.get(member), str) and bool(said[member]), f"the problem has no {member}: {said}")
    return reply

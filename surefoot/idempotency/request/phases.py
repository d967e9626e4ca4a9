"""What a handler with an outside effect does: phases, each a transaction of its own, and calls with none open."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from surefoot.failpoints import failpoint
from surefoot.idempotency.request.attempt import Attempt
from surefoot.idempotency.request.results import Shape, shape_of
from surefoot.idempotency.store import Begun, FirstPhase
from surefoot.idempotency.values import FenceLost, Note, OutcomeUnknown, PhaseMisuse, ProviderBusy, StoreAway

Answers = tuple[type[Exception], ...]


async def run_phase(attempt: Attempt, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
    """`await work(tx, *args)` in its own transaction, once for all attempts; its result, from whichever it was."""
    shape = shape_of(work)
    attempt.use(name)
    try:
        if name in attempt.claim.phases:
            return shape.read(attempt.claim.phases[name]["result"])
        attempt.trying(name)
        begun = attempt.begun
        if begun is not None and attempt.is_untouched:
            kept = await _first_phase(attempt, begun, name, shape, work, args)
        else:
            kept = await _later_phase(attempt, name, shape, work, args)
        attempt.committed()
        return shape.read(kept)
    except FenceLost:
        attempt.end("lost")
        raise
    except StoreAway:
        attempt.end("away")
        raise
    finally:
        attempt.used()


async def _first_phase(
    attempt: Attempt,
    begun: Begun,
    name: str,
    shape: Shape,
    work: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
) -> Any:
    """In the transaction of the claim: nobody was called yet, so neither has to be durable before the other."""
    try:
        kept = shape.kept(await work(begun.tx, *args))
    except BaseException:  # also if the handler has lost patience with it
        await begun.undo()  # the claim is still held, and can be kept with the answer
        raise
    await attempt.keep(FirstPhase(name, {"result": kept}))
    return kept


async def _later_phase(
    attempt: Attempt, name: str, shape: Shape, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
) -> Any:
    claim = await attempt.keep()
    await attempt.noted()
    async with attempt.layer.store.phase(claim, name) as unit:
        kept = shape.kept(await work(unit.tx, *args))
        unit.result = {"result": kept, "calls": attempt.answers} if attempt.answers else {"result": kept}
        unit.notes.extend(attempt.notes)
    return kept


async def run_call(
    attempt: Attempt, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
) -> Any:
    """`await function(*args, key=…)` under the key that was minted at the claim, the same on every attempt.

    A call whose answer was committed with a later phase is not made again. What it raises means that nobody knows what
    it did, unless it is one of `answers`: those are what the provider said."""
    shape = _call_shape(function)
    attempt.use(name)
    try:
        if shape is not None and name in attempt.answers:
            return shape.read(attempt.answers[name])
        await attempt.keep()
        await attempt.announce(name)
        await attempt.check_lease()
        attempt.check_open(name)  # once more: it may have been answered meanwhile
        value = await _called(attempt, name, function, args, key_of_call(attempt, name), answers)
        return value if shape is None else _kept(attempt, name, shape, value)
    except FenceLost:
        attempt.end("lost")
        raise
    except StoreAway:
        attempt.end("away")
        raise
    finally:
        attempt.used()


def key_of_call(attempt: Attempt, name: str) -> str:
    return f"{attempt.provider_key}:{name}"


async def _called(
    attempt: Attempt,
    name: str,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    key: str,
    answers: Answers,
) -> Any:
    timeout_s = attempt.layer.settings.call_timeout.total_seconds()
    attempt.calling(name)
    began = time.monotonic()
    await failpoint("idempotency.before_call")
    try:
        async with asyncio.timeout(timeout_s):
            value = await function(*args, key=key)
    except answers:
        _reply(attempt, name, began, "refused")
        raise
    except ProviderBusy:
        attempt.end("busy")
        _reply(attempt, name, began, "busy")
        raise
    except BaseException as error:
        attempt.end("unknown")
        _reply(attempt, name, began, type(error).__name__)
        if not isinstance(error, Exception):  # the handler, or a middleware, has lost patience with it
            raise
        raise OutcomeUnknown(
            f"The call {name!r} ended with {type(error).__name__}, and nobody knows what the provider did. The request "
            "is made again under the same provider key."
        ) from error
    await failpoint("idempotency.called")
    _reply(attempt, name, began, "answered")
    return value


def _reply(attempt: Attempt, name: str, began: float, outcome: str) -> None:
    took_ms = round((time.monotonic() - began) * 1000)
    attempt.notes.append(Note("replied", {"name": name, "outcome": outcome, "took_ms": took_ms}))


def _call_shape(function: Callable[..., Any]) -> Shape | None:
    """None: what it answers is not kept, because it is not annotated or no JSON. It is then called again on resume."""
    try:
        shape = shape_of(function)
    except PhaseMisuse:
        return None
    return shape if shape.is_typed else None


def _kept(attempt: Attempt, name: str, shape: Shape, value: Any) -> Any:
    try:
        kept = shape.kept(value)
        read = shape.read(kept)
    except PhaseMisuse:
        return value
    attempt.answers[name] = kept
    return read

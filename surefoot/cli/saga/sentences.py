"""A saga in sentences: what it is, where it stands, since when, what it waits for, what can be done. Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_never

from surefoot.errors import ConfigurationError
from surefoot.orchestrator.views import HistoryLine, SagaLine, SagaView, StepLine
from surefoot.saga.instance import ENDED
from surefoot.saga.stimulus import Verb

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,6})\s?([smhd])")


def where_it_stands(saga: SagaView, history: Sequence[HistoryLine]) -> str:
    """`history`: its lines, the latest of them at least."""
    what = f"The saga {saga.saga_type} of {saga.entity_id}"
    since = _since(saga, history)
    ago = f"since {shown(since)} ({spelled(saga.seen_at - since)})"
    why = _sentence(saga.reason)
    match saga.status:
        case "RUNNING":
            return f"{what} is running {ago}. {_waits(saga, history)}"
        case "COMPENSATING":
            return f"{what} is being undone {ago}: {why} {_waits(saga, history)}"
        case "PAUSED":
            return f"{what} is paused {ago}{_paused_by(history)} {_held(saga)}"
        case "STUCK":
            return f"{what} is stuck {ago}: {why} {_after_all(saga)}"
        case "COMPLETED":
            return f"{what} was completed at {shown(since)}, {spelled(since - saga.created_at)} after it began."
        case "COMPENSATED":
            return f"{what} was undone completely by {shown(since)}: {why}"
        case "FAILED":
            return f"{what} failed at {shown(since)}, and there was nothing to undo: {why}"
        case _:
            assert_never(saga.status)


def awaited_of(saga: SagaLine) -> str:
    if saga.current_step is None:
        return "nothing"
    return saga.current_step if saga.current_direction == "do" else f"the undo of {saga.current_step}"


def in_line(saga: SagaLine) -> str:
    return f"ended {shown(saga.ended_at)}" if saga.ended_at is not None else f"waits for {awaited_of(saga)}"


def what_it_does(verb: Verb, saga: SagaView) -> str:
    """The verb, for whoever has to choose one."""
    step, undo = _current(saga), saga.current_direction == "undo"
    is_wait = step is not None and _is_wait(step)
    match verb:
        case "pause":
            return "do nothing until it is resumed; what comes meanwhile is held"
        case "resume":
            return "go on; what came meanwhile acts first, and its clock starts anew"
        case "retry":
            if is_wait:
                return "wait once more, until the deadline"
            more = ", with as many attempts as it had at first" if saga.status == "STUCK" else ""
            return f"send its command once more, now{more}"
        case "skip":
            return f"take it as {'undone' if undo else 'come' if is_wait else 'done'}, by your word, and go on"
        case "compensate":
            return "undo all that was done"
        case _:
            assert_never(verb)


def parse_duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is no duration: write a number and s, m, h or d, such as 90s, 10m or 2h.")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def spelled(time: timedelta) -> str:
    seconds = max(0.0, time.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 120 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


def shown(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def _since(saga: SagaView, history: Sequence[HistoryLine]) -> datetime:
    """When it got into its status."""
    if saga.status in ENDED and saga.ended_at is not None:
        return saga.ended_at
    came = [line.at for line in history if line.after == saga.status and line.before != saga.status]
    if came:
        return came[-1]
    return saga.created_at if saga.status == "RUNNING" else saga.updated_at


def _waits(saga: SagaView, history: Sequence[HistoryLine]) -> str:
    step = _current(saga)
    if step is None:
        return ""
    key = (step.name, saga.current_direction)
    sent = [line.at for line in history if line.kind == "SENT" and (line.step, line.direction) == key]
    if _is_wait(step) and saga.current_direction == "do":
        what = f"for {step.name} to come"
    elif saga.current_direction == "do":
        what = f"for {step.name} to be done (attempt {step.attempt} of {step.limit})"
    else:
        what = f"for {step.name} to be undone (attempt {step.undo_attempt} of {step.undo_limit})"
    since = f" since {shown(sent[0])}" if sent else ""
    return f"It waits{since} {what}{_clock(saga)}"


def _clock(saga: SagaView) -> str:
    timer = saga.timer
    if timer is None:
        return "."
    left = timer.fires_at - saga.seen_at
    if timer.kind == "rest":
        return f"; that attempt is over, and the next is made in {spelled(left)}."
    if timer.command_status == "FAILED":
        return f". Its command cannot be published: look at `surefoot outbox show {timer.command_id}`."
    if timer.command_status == "PENDING":
        return "; its command waits for a relay, and its clock starts when it is published."
    if left <= timedelta(0):
        return "; its time is up, and counts as soon as it is certain that nothing was away."
    return f", for {spelled(left)} yet."


def _paused_by(history: Sequence[HistoryLine]) -> str:
    lines = [line.sentence for line in history if line.kind == "PAUSED"]
    return f", by {_sentence(lines[-1])}" if lines and lines[-1] else "."


def _after_all(saga: SagaView) -> str:
    step = _current(saga)
    comes = step is not None and _is_wait(step)
    return f"If {awaited_of(saga)} {'comes' if comes else 'is answered'} after all, it goes on."


def _held(saga: SagaView) -> str:
    came = ", ".join(f"{one.step} ({one.answer})" for one in saga.held)
    waits = f"It waits for {awaited_of(saga)}."
    return f"{waits} What came meanwhile acts when it is resumed: {came}." if came else waits


def _current(saga: SagaView) -> StepLine | None:
    return next((step for step in saga.steps if step.name == saga.current_step), None)


def _is_wait(step: StepLine) -> bool:
    """Nobody was commanded to do it, so it has no attempts."""
    return step.limit == 0


def _sentence(text: str | None) -> str:
    text = (text or "").strip()
    return text if not text or text[-1] in ".!?…" else f"{text}."

"""Sagas as an operator reads them: a plain sentence first (what it is, where it stands, since when, what it waits for,
what can be done), the detail under it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_never

from surefoot.cli.parked import in_words
from surefoot.cli.show import aligned, clean, console, duration, shown_time
from surefoot.orchestrator.views import HistoryLine, ParkedLine, SagaLine, SagaView, StepLine
from surefoot.saga.instance import ENDED
from surefoot.saga.stimulus import Verb

if TYPE_CHECKING:
    from surefoot.orchestrator.operators import Outcome

_MAX_TEXT = 2_000
_MAX_RESULT = 200
_SAYS_WHY = ("STUCK", "COMPENSATING", "COMPENSATED", "FAILED")


def print_line(saga: SagaLine) -> None:
    console.print(f"{saga.status:<12}  {saga.saga_type}  {_text(saga.entity_id)}  {in_line(saga)}")
    console.print(
        f"  {saga.saga_id}  began {shown_time(saga.created_at)}, last changed {shown_time(saga.updated_at)}",
        style="dim",
    )
    if saga.reason and saga.status in _SAYS_WHY:
        console.print(f"  {_text(saga.reason)}", style="dim")


def print_saga(
    saga: SagaView,
    can: Sequence[Verb] | None,
    needs_result: bool,
    history: Sequence[HistoryLine],
    parked: Sequence[ParkedLine],
) -> None:
    """`can`: None if its definition is not here, so that nobody can tell."""
    console.print(_text(where_it_stands(saga, history)), style="bold")
    _print_verbs(saga, can, needs_result)
    console.print(f"\nsaga {saga.saga_id}, definition {saga.saga_type} version {saga.definition_version}")
    console.print(f"about {_text(saga.entity_id)}, flow {_text(saga.correlation_id)}")
    ended = "" if saga.ended_at is None else f", ended {shown_time(saga.ended_at)}"
    console.print(
        f"began {shown_time(saga.created_at)}, last changed {shown_time(saga.updated_at)}{ended}, "
        f"version {saga.version}"
    )
    console.print("\nsteps", style="bold")
    _print_rows([_step_row(step) for step in saga.steps])
    for branch, path in saga.choices.items():
        console.print(f"at {branch} it took the path {_text(path)}")
    for wait in saga.arrived:
        console.print(f"{wait} has come already, before it was waited for")
    console.print("\nhistory", style="bold")
    _print_rows([_history_row(line) for line in history])
    if parked:
        console.print("\nparked or dead (see `surefoot parked show EVENT`)", style="bold")
    for one in parked:
        words = in_words(one.state, one.holds, one.due_in_s)
        console.print(f"{one.event_id}  {one.event_type or '(no event)'}  of {one.consumer}: {words}")
        if one.last_error:
            console.print(f"  {_text(one.last_error)}", style="dim")
    console.print("\ncontext", style="bold")
    console.print(clean(json.dumps(saga.context, indent=2, ensure_ascii=False)))


def outcome_told(outcome: "Outcome") -> str:
    """What was done, as a sentence."""
    sent = f" On its way, as soon as a relay publishes it: {', '.join(outcome.sent)}." if outcome.sent else ""
    if outcome.after in ENDED:
        return f"Done. The saga has ended: it is {outcome.after}.{sent} Your reason is in its history."
    assert outcome.awaits is not None
    name, direction = outcome.awaits
    waits = f"it waits for {name if direction == 'do' else f'the undo of {name}'}"
    told = {
        "pause": f"Paused. {waits.capitalize()}; what comes is held until it is resumed.",
        "resume": f"Resumed. The saga is {outcome.after}; {waits}.",
        "retry": f"Retried. The saga is {outcome.after}; {waits}.",
        "skip": f"{outcome.step} is taken as {'done' if outcome.direction == 'do' else 'undone'}. The saga is "
        f"{outcome.after}; {waits}.",
        "compensate": f"It is being undone. The saga is {outcome.after}; {waits}.",
    }
    return f"{told[outcome.verb]}{sent} Your reason is in its history."


def _print_verbs(saga: SagaView, can: Sequence[Verb] | None, needs_result: bool) -> None:
    if saga.status in ENDED:
        console.print("Nothing can be done to it any more, and nothing has to be.")
        return
    if can is None:
        console.print(
            f"What you can do is not known here: name the definition of {saga.saga_type} version "
            f"{saga.definition_version} with --sagas package.module:name."
        )
        return
    console.print("You can:")
    for verb in can:
        step = f" --step {saga.current_step}" if verb in ("retry", "skip") else ""
        result = " --result '{…}'" if verb == "skip" and needs_result else ""
        console.print(f'  surefoot saga {verb} {saga.saga_id}{step}{result} --reason "…"')
        console.print(f"      {what_it_does(verb, saga)}", style="dim")


def _step_row(step: StepLine) -> tuple[str, ...]:
    attempts = f"attempt {step.attempt} of {step.limit}" if step.limit else ""
    undone = f"undo: attempt {step.undo_attempt} of {step.undo_limit}" if step.undo_attempt else ""
    return step.name, step.state, attempts, undone, _result(step.result)


def _result(stored: Mapping[str, Any] | None) -> str:
    if stored is None:
        return ""
    data = json.dumps(stored["data"], ensure_ascii=False)
    return _text(f"{stored['type']} {data[:_MAX_RESULT]}{'…' if len(data) > _MAX_RESULT else ''}")


def _history_row(line: HistoryLine) -> tuple[str, ...]:
    step = " ".join(
        str(part) for part in (line.direction if line.direction == "undo" else None, line.step) if part is not None
    )
    attempt = "" if line.attempt is None else f"attempt {line.attempt}"
    status = line.after if line.before == line.after else f"{line.before} → {line.after}"
    return shown_time(line.at), line.kind, step, attempt, status, _text(line.sentence or "").replace("\n", " ")


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    for line in aligned(rows):
        console.print(f"  {line}")


def _text(text: str) -> str:
    return clean(text, _MAX_TEXT)


def where_it_stands(saga: SagaView, history: Sequence[HistoryLine]) -> str:
    """`history`: its lines, the latest of them at least."""
    what = f"The saga {saga.saga_type} of {saga.entity_id}"
    since = _since(saga, history)
    ago = f"since {shown_time(since)} ({spelled(saga.seen_at - since)})"
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
            return f"{what} was completed at {shown_time(since)}, {spelled(since - saga.created_at)} after it began."
        case "COMPENSATED":
            return f"{what} was undone completely by {shown_time(since)}: {why}"
        case "FAILED":
            return f"{what} failed at {shown_time(since)}, and there was nothing to undo: {why}"
        case _:
            assert_never(saga.status)


def awaited_of(saga: SagaLine) -> str:
    if saga.current_step is None:
        return "nothing"
    return saga.current_step if saga.current_direction == "do" else f"the undo of {saga.current_step}"


def in_line(saga: SagaLine) -> str:
    return f"ended {shown_time(saga.ended_at)}" if saga.ended_at is not None else f"waits for {awaited_of(saga)}"


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


def spelled(time: timedelta) -> str:
    seconds = max(0.0, time.total_seconds())
    return duration(seconds) if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


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
    since = f" since {shown_time(sent[0])}" if sent else ""
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

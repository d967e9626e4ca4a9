"""Sagas as an operator reads them: a plain sentence first, the detail under it."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from surefoot.cli.parked_shown import console, in_words
from surefoot.cli.saga.sentences import in_line, shown, what_it_does, where_it_stands
from surefoot.events.text import printable
from surefoot.orchestrator.views import HistoryLine, ParkedLine, SagaLine, SagaView, StepLine
from surefoot.saga.instance import ENDED
from surefoot.saga.stimulus import Verb

if TYPE_CHECKING:
    from surefoot.orchestrator.operators import Outcome

_MAX_SHOWN = 2_000
_MAX_RESULT = 200
_MAX_CONTEXT = 20_000
_SAYS_WHY = ("STUCK", "COMPENSATING", "COMPENSATED", "FAILED")


def print_line(saga: SagaLine) -> None:
    console.print(f"{saga.status:<12}  {saga.saga_type}  {_clean(saga.entity_id)}  {in_line(saga)}")
    console.print(
        f"  {saga.saga_id}  began {shown(saga.created_at)}, last changed {shown(saga.updated_at)}", style="dim"
    )
    if saga.reason and saga.status in _SAYS_WHY:
        console.print(f"  {_clean(saga.reason)}", style="dim")


def print_saga(
    saga: SagaView,
    can: Sequence[Verb] | None,
    needs_result: bool,
    history: Sequence[HistoryLine],
    parked: Sequence[ParkedLine],
) -> None:
    """`can`: None if its definition is not here, so that nobody can tell."""
    console.print(_clean(where_it_stands(saga, history)), style="bold")
    _print_verbs(saga, can, needs_result)
    console.print(f"\nsaga {saga.saga_id}, definition {saga.saga_type} version {saga.definition_version}")
    console.print(f"about {_clean(saga.entity_id)}, flow {_clean(saga.correlation_id)}")
    ended = "" if saga.ended_at is None else f", ended {shown(saga.ended_at)}"
    console.print(
        f"began {shown(saga.created_at)}, last changed {shown(saga.updated_at)}{ended}, version {saga.version}"
    )
    console.print("\nsteps", style="bold")
    _print_table([_step_row(step) for step in saga.steps])
    for branch, path in saga.choices.items():
        console.print(f"at {branch} it took the path {_clean(path)}")
    for wait in saga.arrived:
        console.print(f"{wait} has come already, before it was waited for")
    console.print("\nhistory", style="bold")
    _print_table([_history_row(line) for line in history])
    if parked:
        console.print("\nparked or dead (see `surefoot parked show EVENT`)", style="bold")
    for one in parked:
        words = in_words(one.state, one.holds, one.due_in_s)
        console.print(f"{one.event_id}  {one.event_type or '(no event)'}  of {one.consumer}: {words}")
        if one.last_error:
            console.print(f"  {_clean(one.last_error)}", style="dim")
    console.print("\ncontext", style="bold")
    console.print(printable(json.dumps(saga.context, indent=2, ensure_ascii=False), _MAX_CONTEXT))


def print_json(what: Mapping[str, Any] | Sequence[Any]) -> None:
    typer.echo(json.dumps(what, indent=2))


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
    return _clean(f"{stored['type']} {data[:_MAX_RESULT]}{'…' if len(data) > _MAX_RESULT else ''}")


def _history_row(line: HistoryLine) -> tuple[str, ...]:
    step = " ".join(
        str(part) for part in (line.direction if line.direction == "undo" else None, line.step) if part is not None
    )
    attempt = "" if line.attempt is None else f"attempt {line.attempt}"
    status = line.after if line.before == line.after else f"{line.before} → {line.after}"
    return shown(line.at), line.kind, step, attempt, status, _clean(line.sentence or "").replace("\n", " ")


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        console.print(f"  {'  '.join(cells).rstrip()}")


def _clean(text: str) -> str:
    """Without what would steer the reader's terminal."""
    return printable(text, _MAX_SHOWN)

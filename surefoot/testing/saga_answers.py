"""What comes to a saga in a test: which step a reply answers and what it means, which wait an event is for. What could
never come to it in production is a misuse of the kit, and said so.
"""

from surefoot.events import EventData
from surefoot.events.event import Direction
from surefoot.saga.definition import Reply, Step, Wait, stored_result
from surefoot.saga.instance import StepRecord
from surefoot.saga.stimulus import Answer, Arrived, Fired, Replied
from surefoot.testing.consumer_records import KitMisuse
from surefoot.testing.saga_run import Run, entity_of


def reply_with(run: Run, data: EventData, step: str | None, attempt: int | None) -> Replied:
    name, direction = _addressed(run, data, step)
    answer = meaning(run.definition.step(name), direction, data)
    result = stored_result(data) if answer == "done" else None
    return Replied(name, direction, attempt or _attempts(run, name, direction), answer, result)


def failure(run: Run, why: str) -> Replied:
    step, direction = awaited_step(run)
    return Replied(step.name, direction, _attempts(run, step.name, direction), "failed", why=why)


def meaning(step: Step, direction: Direction, data: EventData) -> Answer:
    if isinstance(data, step.done_on if direction == "do" else step.undone_on):
        return "done"
    if direction == "do" and isinstance(data, step.refused_on):
        return "refused"
    raise KitMisuse(
        f"{type(data).__name__} does not answer the {direction} of {step.name}: {answers_of(step, direction)}."
    )


def answers_of(step: Step, direction: Direction) -> str:
    if direction == "undo":
        return f"it is undone on {_names(step.undone_on)}"
    refused = f" and refused on {_names(step.refused_on)}" if step.refused_on else ""
    return f"it is done on {_names(step.done_on)}{refused}"


def arrival_of(run: Run, data: EventData) -> Arrived:
    """It is for the wait awaited, or else the first that is still to come."""
    waits = [wait for wait in run.definition.waits if isinstance(data, wait.done_on)]
    if not waits:
        raise KitMisuse(f"No wait of {run.definition.name} is for {type(data).__name__}.")
    states = {record.name: record.state for record in run.saga.trail}
    awaited = [wait for wait in waits if states.get(wait.name) == "AWAITED"]
    coming = [wait for wait in waits if wait.name not in states]
    wait = (awaited + coming + waits)[0]
    about = entity_of(data, wait.entity)
    if about != run.entity:
        raise KitMisuse(
            f"The event is about {about!r} and the saga about {run.entity!r}, so it would never reach it: look at the "
            "event's key, or at what the wait says is its entity."
        )
    return Arrived(wait.name, stored_result(data))


def timer_of(run: Run) -> Fired:
    timer = run.saga.timer
    if timer is None:
        raise KitMisuse(f"The saga is {run.saga.status}, and no time runs for it.")
    return Fired(timer.step, timer.direction, timer.attempt, timer.kind)


def awaited(run: Run) -> tuple[StepRecord, Direction]:
    found = run.saga.awaited
    if found is None:
        raise KitMisuse(f"The saga is {run.saga.status} and awaits nothing any more.")
    return found


def awaited_step(run: Run) -> tuple[Step, Direction]:
    record, direction = awaited(run)
    node = run.definition.parts[record.name]
    if not isinstance(node, Step):
        raise KitMisuse(f"The saga waits for {record.name}, an event from outside: let it arrive, or be late.")
    return node, direction


def awaited_wait(run: Run) -> Wait:
    record, _ = awaited(run)
    node = run.definition.parts[record.name]
    if not isinstance(node, Wait):
        raise KitMisuse(f"The saga awaits the answer of {record.name}, which is a step: let it time_out.")
    return node


def _addressed(run: Run, data: EventData, step: str | None) -> tuple[str, Direction]:
    if step is None:
        found, direction = awaited_step(run)
        return found.name, direction
    node = run.definition.parts.get(step)
    if not isinstance(node, Step) or run.saga.record(step) is None:
        raise KitMisuse(f"{step} was never sent a command, so nobody can answer it.")
    return step, "undo" if isinstance(data, node.undone_on) else "do"


def _attempts(run: Run, name: str, direction: Direction) -> int:
    record = run.saga.record(name)
    assert record is not None
    made = record.attempt if direction == "do" else record.undo_attempt
    if not made:
        raise KitMisuse(f"{name} was never sent its {direction}, so nobody can answer it.")
    return made


def _names(replies: tuple[Reply, ...]) -> str:
    return " or ".join(reply.__name__ for reply in replies)

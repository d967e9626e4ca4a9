"""What a person can do to a saga now, and the result that they give for a step they skip. Pure.

The engine itself is asked, so the answer is the one it will give.
"""

from dataclasses import dataclass
from typing import Any, get_args

import orjson
from pydantic import ValidationError

from surefoot.errors import SurefootError
from surefoot.events import EventData, event_type_of
from surefoot.saga import Definition, Instance, NotNow, decide
from surefoot.saga.definition import Branch, Step, Wait
from surefoot.saga.operating import result_for_skip
from surefoot.saga.stimulus import Operated, Verb


@dataclass(frozen=True, slots=True)
class Given:
    """The data of the event, as JSON, and its type where a step is done on several."""

    text: str
    type: str | None = None


def result_of(definition: Definition, instance: Instance, given: Given | None) -> Any:
    """The result of the step awaited, as it is stored. Raises NotNow, with what to give, if it would not do."""
    assert instance.awaited is not None
    record, direction = instance.awaited
    if direction == "undo":
        if given is not None:
            raise NotNow(f"The undo of {record.name} is awaited, and an undo has no result: leave --result away.")
        return None
    node = definition.parts[record.name]
    assert isinstance(node, Step | Wait)
    if given is not None:
        return result_for_skip(definition, record.name, _read(node, given))
    try:
        return result_for_skip(definition, record.name, None)
    except NotNow as error:
        raise NotNow(f"{error} Say --result '{example_of(_type(node, None))}'") from error


def _read(node: Step | Wait, given: Given) -> EventData:
    wanted = _type(node, given.type)
    name = event_type_of(wanted).name
    try:
        data = orjson.loads(given.text)
    except orjson.JSONDecodeError as error:
        raise NotNow(
            f"The result is no JSON ({error}): give the data of {name}, such as {example_of(wanted)}"
        ) from None
    if not isinstance(data, dict):
        raise NotNow(f"The result has to be a JSON object, the data of {name}, such as {example_of(wanted)}")
    # A reader passes over what it does not know; of somebody who types it, it is a slip.
    unknown = sorted(data.keys() - wanted.model_fields.keys())
    if unknown:
        raise NotNow(f"{name} has no {', '.join(unknown)}: its members are {', '.join(wanted.model_fields)}.")
    try:
        read = wanted.model_validate_json(given.text)
    except ValidationError as error:
        raise NotNow(f"The result does not fit {name}: {_problems(error)}.") from None
    except SurefootError as error:  # money given as a float
        raise NotNow(f"The result does not fit {name}: {error}") from None
    if b"\\u0000" in orjson.dumps(read.model_dump(mode="json")):
        raise NotNow("The result has a NUL character in it, which the database does not take.")
    return read


def _type(node: Step | Wait, asked: str | None) -> type[EventData]:
    names = {reply: event_type_of(reply) for reply in node.done_on}
    if asked is None and len(names) == 1:
        return node.done_on[0]
    fitting = [
        reply for reply, declared in names.items() if asked in (declared.name, f"{declared.name}.v{declared.version}")
    ]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(f"{one.name}.v{one.version}" if len(fitting) > 1 else one.name for one in names.values())
    if asked is None or fitting:
        raise NotNow(f"{node.name} is done on any of {known}: say which with --type.")
    raise NotNow(f"{node.name} is not done on {asked}; it is on {known}.")


def example_of(wanted: type[EventData]) -> str:
    needed = [name for name, field in wanted.model_fields.items() if field.is_required()]
    return "{" + ", ".join(f'"{name}": …' for name in needed) + "}"


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'it'}: {problem['msg'].removeprefix('Value error, ')}"
        for problem in error.errors(include_url=False)
    )


VERBS: tuple[Verb, ...] = get_args(Verb)


def refusal(definition: Definition, instance: Instance, operated: Operated) -> NotNow | None:
    """Why it cannot be done now; None if it can. Whatever path branches take: that is not known before it is done."""
    try:
        decide(definition, instance, operated, _any_path)
    except NotNow as error:
        return error
    return None


def possible(definition: Definition, instance: Instance) -> tuple[Verb, ...]:
    return tuple(verb for verb in VERBS if refusal(definition, instance, Operated(verb, "somebody", "why")) is None)


def needs_result(definition: Definition, instance: Instance) -> bool:
    """Whether the step awaited can be skipped only with a result, since others rely on it."""
    awaited = instance.awaited
    if awaited is None or awaited[1] == "undo":
        return False
    try:
        result_for_skip(definition, awaited[0].name, None)
    except NotNow:
        return True
    return False


def _any_path(branch: Branch, _: Instance) -> str:
    return next(iter(branch.paths))

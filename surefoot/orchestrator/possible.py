"""What a person can do to a saga now. Pure: the engine itself is asked, so the answer is the one it will give."""

from typing import get_args

from surefoot.saga import Definition, Instance, NotNow, decide
from surefoot.saga.definition import Branch
from surefoot.saga.operating import result_for_skip
from surefoot.saga.stimulus import Operated, Verb

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

"""What a failure means: whose fault it is, and whether trying again can help.

A handler says so itself (`raise Permanent("…")`, `raise Transient("…")`, `raise DependencyDown("…")`), or the consumer
says it for types of exceptions, or the database's own code tells. What nobody classified is transient: it is tried
again, and is dead after the last attempt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.errors import InvalidEvent, SurefootError, UndeclaredEvent

FailureClass = Literal["permanent", "transient", "contended", "database", "dependency"]
"""permanent: no attempt will help. transient: a later one may. contended: a deadlock or a lock that was not to be had.
database: it may be away; a probe on a fresh connection decides. dependency: something declared as such is away."""


class Permanent(SurefootError):
    """The event can never be processed: it goes to the dead-letter topic without another attempt."""


class Transient(SurefootError):
    """The event could not be processed now: it is parked and tried again."""


class DependencyDown(SurefootError):
    """Something the handler needs is away: the consumer waits and counts no attempt."""


FREE_CONTENTIONS = 9
"""So many deadlocks and lock timeouts of a single event are not counted as attempts."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a consumer says about types of exceptions. Of several that fit, the closest relative decides."""

    permanent: Sequence[type[BaseException]] = ()
    transient: Sequence[type[BaseException]] = ()
    dependencies: Sequence[type[BaseException]] = ()

    def of(self, error: BaseException) -> FailureClass | None:
        for cls in type(error).__mro__:
            if cls in self.permanent:
                return "permanent"
            if cls in self.transient:
                return "transient"
            if cls in self.dependencies:
                return "dependency"
        return None


_BUILT_IN = Rules(
    permanent=(Permanent, InvalidEvent, UndeclaredEvent), transient=(Transient,), dependencies=(DependencyDown,)
)
_AWAY_CLASSES = ("08", "53")
_AWAY_STATES = ("57P", "25P03", "25P04", "25006")
"""25006: it takes no writes, because another server has taken over."""
_CONTENDED = ("40P01", "40001", "55P03")


def classify(error: BaseException, rules: Rules) -> FailureClass:
    found = rules.of(error) or _BUILT_IN.of(error)
    if found is not None:
        return found
    for cause in causes(error):
        state = str(_attribute(cause, "sqlstate") or "")
        if state in _CONTENDED:
            return "contended"
        if state[:2] in _AWAY_CLASSES or state.startswith(_AWAY_STATES) or _lost_connection(cause):
            return "database"
    return "transient"


def sqlstate_of(error: BaseException) -> str:
    """The database's own code for this error; empty if it is not the database's."""
    return next((str(state) for cause in causes(error) if (state := _attribute(cause, "sqlstate"))), "")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it wraps and what it was raised from."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        nearer = (_attribute(one, "orig"), one.__cause__)
        waiting.extend(found for found in nearer if isinstance(found, BaseException))


def _lost_connection(error: BaseException) -> bool:
    """The drivers tell of a connection that the server ended without any code: by a flag, or by the error's type."""
    if _attribute(error, "connection_invalidated") is True:
        return True
    module = type(error).__module__
    return module.startswith("asyncpg") and type(error).__name__ in (
        "InterfaceError",
        "InternalClientError",
        "ConnectionDoesNotExistError",
    )


def _attribute(error: BaseException, name: str) -> object:
    """An exception of somebody else's may do anything when it is asked for what it does not have."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None

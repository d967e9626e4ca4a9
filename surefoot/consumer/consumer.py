"""A consumer: a name, handlers for event types, and what to do when they fail.

    warehouse = Consumer("warehouse")

    @warehouse.on(OrderPaid)
    async def confirm_reservation(event: Event[OrderPaid], tx: Transaction) -> None:
        ...

Declaring starts nothing: `surefoot consume package.module:warehouse` runs it, `surefoot.testing` tries it without a
broker or a database.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from surefoot.consumer.failures import Rules
from surefoot.consumer.handlers import (
    BatchHandler,
    Call,
    CommandHandler,
    EventHandler,
    Handler,
    OutsideHandler,
    Prepare,
)
from surefoot.errors import ConfigurationError
from surefoot.events import EventData, EventType, Topic, event_type_of
from surefoot.retry import Retry

WhenDead = Literal["hold", "release"]
Function = TypeVar("Function", bound=Callable[..., Any])
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class Consumer:
    def __init__(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        when_dead: WhenDead = "hold",
        permanent: Sequence[type[BaseException]] = (),
        transient: Sequence[type[BaseException]] = (),
        dependencies: Sequence[type[BaseException]] = (),
    ) -> None:
        """`name` is the group's name in the log and the consumer's name in every table: it stays as it is for good.

        `when_dead`: whether an event that is out of attempts keeps the later ones of its key waiting ("hold"), or lets
        them go on without it ("release"). `permanent`, `transient` and `dependencies` say what exceptions mean;
        while one of `dependencies` is raised the consumer waits and counts no attempt."""
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} is no name for a consumer: use lowercase letters, digits, dots, hyphens and underscores, "
                "100 at most, such as warehouse."
            )
        if when_dead not in ("hold", "release"):
            raise ConfigurationError(f"when_dead={when_dead!r} of {name} is neither 'hold' nor 'release'.")
        self.name = name
        self.retry = retry or Retry()
        self.when_dead: WhenDead = when_dead
        self.rules = Rules(tuple(permanent), tuple(transient), tuple(dependencies))
        self._handlers: dict[tuple[str, int], Handler] = {}
        self._versions: dict[str, list[int]] = {}

    def on(
        self, event: type[EventData], *, outside: Call | None = None, prepare: Prepare | None = None
    ) -> Callable[[Function], Function]:
        """The decorated function handles each event of this type: `async (event, tx)`.

        With `outside`, a call of somebody else's system, it is `async (event, tx, result)` and runs when the call has
        answered. The call, `async (event, call)`, is made with no transaction open, and again until it succeeds;
        `prepare`, `async (event, tx)`, runs once before the first."""

        def register(function: Function) -> Function:
            self._add(self._each(event_type_of(event), function, outside, prepare, command=False))
            return function

        return register

    def on_batch(self, *events: type[EventData]) -> Callable[[Function], Function]:
        """The decorated function handles runs of events of these types at once, in the order of the log, also where the
        types alternate: `async (events: Sequence[Event[OrderPaid | OrderCancelled]], tx)`."""
        if not events:
            raise ConfigurationError(
                f"{self.name}: on_batch() names no type of event, so its handler would never be called: name one at "
                "least, such as on_batch(OrderPaid)."
            )
        types = [event_type_of(event) for event in events]

        def register(function: Function) -> Function:
            _check(function, 2, self.name)
            self._add(*(BatchHandler(event_type, function.__name__, function) for event_type in types))
            return function

        return register

    def command(
        self, command: type[EventData], *, outside: Call | None = None, prepare: Prepare | None = None
    ) -> Callable[[Function], Function]:
        """The decorated function carries out a saga's command, as `on` does for events, and returns the reply.

        The reply is published and kept: a repeated command gets it again, and the function does not run twice."""

        def register(function: Function) -> Function:
            self._add(self._each(event_type_of(command), function, outside, prepare, command=True))
            return function

        return register

    def handler(self, event_type: str, version: int | None) -> Handler | None:
        """The handler for this type and version. A record that does not say its version is taken as the oldest."""
        versions = self._versions.get(event_type)
        if versions is None:
            return None
        return self._handlers.get((event_type, versions[0] if version is None else version))

    def handles(self, event_type: str) -> bool:
        """Whether there is a handler for any version of this type."""
        return event_type in self._versions

    def versions(self, event_type: str) -> tuple[int, ...]:
        return tuple(self._versions.get(event_type, ()))

    @property
    def handlers(self) -> tuple[Handler, ...]:
        return tuple(self._handlers.values())

    @property
    def topics(self) -> tuple[Topic, ...]:
        found = {handler.event_type.topic.name: handler.event_type.topic for handler in self.handlers}
        return tuple(found[name] for name in sorted(found))

    def _each(
        self,
        event_type: EventType[Any],
        function: Callable[..., Any],
        outside: Call | None,
        prepare: Prepare | None,
        *,
        command: bool,
    ) -> Handler:
        name = function.__name__
        if outside is None:
            if prepare is not None:
                raise ConfigurationError(
                    f"{self.name}: {name} has prepare= without outside=, so there is no call to prepare: do its work "
                    "in the handler itself."
                )
            _check(function, 2, self.name)
            kind = CommandHandler if command else EventHandler
            return kind(event_type, name, function)
        _check(function, 3, self.name)
        _check(outside, 2, self.name)
        if prepare is not None:
            _check(prepare, 2, self.name)
        return OutsideHandler(event_type, name, outside, function, prepare, command)

    def _add(self, *handlers: Handler) -> None:
        """All of them, or none."""
        added = dict(self._handlers)
        for handler in handlers:
            declared = handler.event_type
            known = added.setdefault((declared.name, declared.version), handler)
            if known is not handler:
                raise ConfigurationError(
                    f"The consumer {self.name} has two handlers for {declared.name} version {declared.version}, "
                    f"{known.name} and {handler.name}: keep one, or make a second consumer."
                )
        self._handlers = added
        for declared in (handler.event_type for handler in handlers):
            self._versions[declared.name] = sorted([*self._versions.get(declared.name, ()), declared.version])


def _check(function: Callable[..., Any], parameters: int, consumer: str) -> None:
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"{consumer}: {name} is no `async def` function, and only such a one can be waited for."
        )
    try:
        inspect.signature(function).bind(*range(parameters))
    except TypeError:
        expected = {2: "(event, tx)", 3: "(event, tx, result)"}[parameters]
        raise ConfigurationError(
            f"{consumer}: {name} is called with {parameters} arguments, such as {expected}, and does not take them."
        ) from None

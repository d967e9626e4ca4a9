"""What commands leave behind in the test kit, by saga, step and direction: the reply, or that they must not run."""

from dataclasses import dataclass

from surefoot.events import Event, EventData
from surefoot.events.commands import Command


@dataclass(frozen=True, slots=True)
class Barrier:
    """The reply, to be given again; or, before the command came, that its undo came first."""

    barred: bool
    reply: Event[EventData] | None


class Barriers:
    """A command that does not say which step it is for (None) leaves nothing."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, str, str], Barrier] = {}

    def of(self, command: Command | None) -> Barrier | None:
        return None if command is None else self._settled.get(_place(command))

    def keep(self, command: Command | None, reply: Event[EventData] | None) -> None:
        if command is not None:
            self._settled[_place(command)] = Barrier(barred=False, reply=reply)
            self.bar_the_do(command)

    def bar_the_do(self, command: Command | None) -> None:
        """An undo bars its do, should that still come."""
        if command is not None and command.direction == "undo":
            self._settled.setdefault(_do_of(command), Barrier(barred=True, reply=None))

    def was_done(self, command: Command | None) -> bool:
        """In an undo: whether its do was carried out."""
        if command is None or command.direction == "do":
            return False
        do = self._settled.get(_do_of(command))
        return do is not None and not do.barred


def _place(command: Command) -> tuple[str, str, str]:
    return command.saga_id, command.step, command.direction


def _do_of(command: Command) -> tuple[str, str, str]:
    return command.saga_id, command.step, "do"

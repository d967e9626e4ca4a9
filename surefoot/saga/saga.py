"""Writing a saga, top to bottom: what happens, what undoes it, where the point of no return is.

    order = Saga("order_placement", version=1, starts_on=PlacementRequested)
    order.step("reserve_stock", do=reserve, done_on=StockReserved, refused_on=StockRejected,
               undo=release, undone_on=StockReleased)
    order.pivot("confirm_order", do=confirm, done_on=OrderConfirmed)
    order.step("request_shipment", do=ship, done_on=ShipmentRequested)

What cannot be right is refused with a sentence: some of it at once, the rest when `definition` is first asked for.
"""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from surefoot.events import EventData, event_type_of
from surefoot.retry import Retry
from surefoot.saga import checks
from surefoot.saga.definition import (
    Branch,
    Choose,
    Definition,
    DefinitionError,
    Make,
    Node,
    Reply,
    Step,
    Wait,
    WhenDead,
    WhenLate,
)
from surefoot.saga.instance import Status

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
Replies = Reply | Sequence[Reply]


class Path:
    """A sequence of steps, waits and branches. A saga is one, and so is each path of a branch."""

    def __init__(self, saga: "Saga", *, after_pivot: bool) -> None:
        self._saga = saga
        self._nodes: list[Node | OpenBranch] = []
        self._after_pivot = after_pivot
        self._followed_by: str | None = None

    def step(
        self,
        name: str,
        *,
        do: Make,
        done_on: Replies,
        refused_on: Replies = (),
        undo: Make | None = None,
        undone_on: Replies = (),
        nothing_to_undo: bool = False,
        timeout: timedelta = timedelta(minutes=2),
        retry: Retry | None = None,
        undo_retry: Retry | None = None,
        when_dead: WhenDead = "undo",
        unread_counts: bool = False,
        handled_by: str | None = None,
    ) -> None:
        """A service is commanded by `do`, and is done when it answers by one of `done_on`. `refused_on` means that it
        was not done. Behind the pivot a step is repeated, never undone."""
        self._settle_branch(name)
        self._add(
            Step(
                name,
                do,
                replies(done_on),
                replies(refused_on),
                undo,
                replies(undone_on),
                nothing_to_undo=nothing_to_undo,
                timeout=timeout,
                retry=retry or Retry(),
                undo_retry=undo_retry or Retry(),
                when_dead=when_dead,
                unread_counts=unread_counts,
                handled_by=handled_by,
                after_pivot=self._after_pivot,
            )
        )

    def pivot(
        self,
        name: str,
        *,
        do: Make,
        done_on: Replies,
        refused_on: Replies = (),
        timeout: timedelta = timedelta(minutes=2),
        retry: Retry | None = None,
        unread_counts: bool = False,
        handled_by: str | None = None,
    ) -> None:
        """The point of no return. Refused, everything before is undone; done, everything behind it gets done."""
        self._settle_branch(name)
        if self._after_pivot:
            raise DefinitionError(f"{self._saga.name}: {name} is a second pivot; a way through a saga has one.")
        self._add(
            Step(
                name,
                do,
                replies(done_on),
                replies(refused_on),
                timeout=timeout,
                retry=retry or Retry(),
                unread_counts=unread_counts,
                handled_by=handled_by,
                pivot=True,
            )
        )
        self._after_pivot = True

    def wait(
        self,
        name: str,
        *,
        until: Replies,
        deadline: timedelta,
        when_late: WhenLate = "escalate",
        entity: str | None = None,
        tell: Make | None = None,
    ) -> None:
        """Wait for an event from outside that is about the saga's entity. At the deadline the saga is undone, or STUCK
        in front of an operator (`escalate`). `tell` makes an event that is published then."""
        self._settle_branch(name)
        self._add(Wait(name, replies(until), deadline, when_late, entity, tell, self._after_pivot))

    def branch(self, name: str, *, by: Choose) -> "OpenBranch":
        """Go on by the path whose name `by` returns: `verdict = saga.branch(…); good = verdict.path("APPROVED")`."""
        self._settle_branch(name)
        opened = OpenBranch(self._saga, name, by, self)
        self._add(opened)
        return opened

    def _add(self, node: "Node | OpenBranch") -> None:
        self._saga._take_name(node.name)
        if self._followed_by is not None:
            raise DefinitionError(
                f"{self._saga.name}: {node.name} is added to a path whose branch is followed by {self._followed_by} "
                "already: write the paths of a branch before what follows it."
            )
        if isinstance(node, Step | Wait):
            checks.alone(self._saga.name, node)
        self._nodes.append(node)

    def _settle_branch(self, followed_by: str) -> None:
        """What follows a branch is behind the pivot if its paths are; they must agree, and nothing is added to them."""
        last = self._nodes[-1] if self._nodes else None
        if isinstance(last, OpenBranch):
            self._after_pivot = last.passes_pivot(followed_by)

    def _frozen(self) -> tuple[Node, ...]:
        return tuple(node.frozen() if isinstance(node, OpenBranch) else node for node in self._nodes)


class OpenBranch:
    """A branch to which paths are still added."""

    def __init__(self, saga: "Saga", name: str, by: Choose, parent: Path) -> None:
        self.name = name
        self._saga = saga
        self._by = by
        self._before = parent._after_pivot
        self._paths: dict[str, Path] = {}
        self._followed_by: str | None = None

    def path(self, label: str) -> Path:
        """What happens if the branch goes this way. A path may stay empty."""
        if label in self._paths:
            raise DefinitionError(f"{self._saga.name}: the branch {self.name} has two paths named {label!r}.")
        if self._followed_by is not None:
            raise DefinitionError(
                f"{self._saga.name}: the path {label!r} is added to the branch {self.name}, which is followed by "
                f"{self._followed_by} already: write the paths of a branch before what follows it."
            )
        made = self._paths[label] = Path(self._saga, after_pivot=self._before)
        return made

    def passes_pivot(self, followed_by: str) -> bool:
        self._followed_by = followed_by
        for path in self._paths.values():
            path._settle_branch(followed_by)
            path._followed_by = followed_by
        found = {path._after_pivot for path in self._paths.values()}
        if len(found) > 1:
            raise DefinitionError(
                f"{self._saga.name}: some paths of the branch {self.name} pass a pivot and others do not, so nobody "
                "can say whether what follows the branch may still be undone. Put the rest into the paths."
            )
        return found.pop() if found else self._before

    def frozen(self) -> Branch:
        return Branch(self.name, self._by, {label: path._frozen() for label, path in self._paths.items()})


class Saga(Path):
    def __init__(
        self,
        name: str,
        *,
        version: int,
        starts_on: type[EventData],
        context: type[BaseModel] | None = None,
        begin: Callable[[Any], BaseModel] | None = None,
        entity: str | None = None,
        starts_when: Callable[[Any], bool] | None = None,
    ) -> None:
        """`context` is what the functions get first: the start event's data, unless it is said otherwise; then `begin`
        makes it of those data, by default from the members of the same names. `starts_when` is given those data and
        says whether they start a saga at all."""
        if not _NAME.fullmatch(name):
            raise DefinitionError(f"{name!r} is no name for a saga: use lowercase letters, digits and underscores.")
        if version < 1:
            raise DefinitionError(f"{name}: version {version} is below 1.")
        event_type_of(starts_on)
        super().__init__(self, after_pivot=False)
        self.name = name
        self.version = version
        self._starts_on = starts_on
        self._context = context or starts_on
        self._begin = begin
        self._entity = entity
        self._starts_when = starts_when
        self._tells: dict[Status, Make] = {}
        self._names: set[str] = set()

    def tell(self, status: Status, make: Make) -> None:
        """Publish the event that `make` returns when the saga gets into this status. Nobody answers it."""
        self._still_open(f"what it tells of {status}")
        if status not in ("COMPLETED", "COMPENSATED", "FAILED", "STUCK"):
            raise DefinitionError(
                f"{self.name}: nobody is told of {status}; of COMPLETED, COMPENSATED, FAILED or STUCK."
            )
        if status in self._tells:
            raise DefinitionError(f"{self.name} tells of {status} twice.")
        self._tells[status] = make

    @cached_property
    def definition(self) -> Definition:
        """The saga as data, checked as a whole. Nothing can be added any more."""
        made = Definition(
            self.name,
            self.version,
            self._starts_on,
            self._context,
            self._begin or self._same_members,
            self._entity,
            self._starts_when,
            self._frozen(),
            dict(self._tells),
        )
        if self._begin is None:
            checks.same_members(made)
        checks.whole(made)
        return made

    def _same_members(self, data: EventData) -> BaseModel:
        if self._context is self._starts_on:
            return data
        return self._context.model_validate(data.model_dump(include=set(self._context.model_fields)))

    def _take_name(self, name: str) -> None:
        self._still_open(name)
        if not _NAME.fullmatch(name):
            raise DefinitionError(f"{self.name}: {name!r} is no name for a step: use lowercase letters, digits and _.")
        if name in self._names:
            raise DefinitionError(f"{self.name}: the name {name} is used twice; steps are known by their names.")
        self._names.add(name)

    def _still_open(self, what: str) -> None:
        if "definition" in self.__dict__:
            raise DefinitionError(f"{self.name}: {what} is added after the definition was taken into use.")


def replies(given: Replies) -> tuple[Reply, ...]:
    return (given,) if isinstance(given, type) else tuple(given)

"""Walking every way, the shortest first: so the first violation that is met is one of the shortest. Without operators
first, and then with more and more of their actions: a mistake that shows without them is easier to understand so.

A state is the saga's standing, what the services know and have done, which events have come, and how often an operator
may still act. The answers to "what can happen now" are kept by standing and service (`deciding`), so that a state costs
little more than its place in memory.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from surefoot.saga import engine
from surefoot.saga.definition import Definition
from surefoot.saga.engine import Decide
from surefoot.saga.instance import Status
from surefoot.saga.stimulus import Operated
from surefoot.saga.verify import counterexample
from surefoot.saga.verify.cycles import first_circle
from surefoot.saga.verify.deciding import Begin, Engine, Outcome
from surefoot.saga.verify.model import Limits, cut
from surefoot.saga.verify.verdict import Proved, TooLarge, Trouble, Verdict, Violated
from surefoot.saga.verify.world import Event, State, World

Watch = Callable[[int, int], None]
"""(states that were looked at, states that are known): called now and then, so that somebody sees that it goes on."""
EVERY = 4096


class Gone(NamedTuple):
    """How a state was first reached: from which one (-1: from nothing), and by what."""

    origin: int
    event: Event


def verify(
    definition: Definition,
    *,
    decide: Decide = engine.decide,
    begin: Begin = engine.begin,
    limits: Limits | None = None,
    clock: Callable[[], float] = lambda: 0.0,
    watch: Watch | None = None,
) -> Verdict:
    """Proved, or violated by a shortest counter-example of those with the fewest actions of operators. `clock` tells
    the seconds; without one, they are none."""
    limits, started = limits or Limits(), clock()
    for actions in range(limits.actions + 1):
        search = Search(definition, decide, begin, replace(limits, actions=actions))
        found = search.run(watch)
        if found is not None:
            trouble, path = found
            lines, states = tuple(counterexample.lines(path)), len(search.states)
            return Violated(trouble.property, trouble.sentence, lines, states, clock() - started)
    return Proved(len(search.states), search.transitions, clock() - started, search.ends())


Found = tuple[Trouble, list[Event]]


class Search:
    def __init__(self, definition: Definition, decide: Decide, begin: Begin, limits: Limits) -> None:
        self._definition = cut(definition, limits)
        self._limits = limits
        self.engine = Engine(self._definition, decide, begin, limits)
        self._world = World(self._definition, self.engine, limits)
        self._numbers: dict[State, int] = {}
        self.states: list[State] = []
        self._gone: list[Gone] = []
        self._edges: dict[tuple[int, int], Gone] = {}
        """From standing to standing, without people: how it was first gone."""
        self._queue: deque[int] = deque()
        self.transitions = 0

    def run(self, watch: Watch | None) -> Found | None:
        for event, state, trouble in self._world.beginnings():
            trouble = trouble or self._reach(state, Gone(-1, event))
            if trouble is not None:
                return trouble, [event]
        while self._queue:
            at = self._queue.popleft()
            if watch is not None and at % EVERY == 0:
                watch(at, len(self.states))
            for event, state, trouble in self._world.successors(self.states[at]):
                self.transitions += 1
                trouble = trouble or self._reach(state, Gone(at, event))
                if trouble is not None:
                    return trouble, [*self._path(at), event]
                self._note_edge(at, state, event)
        return self._return()

    def ends(self) -> dict[Status, int]:
        counted = Counter(self.engine.standings.things[state.standing].status for state in self.states)
        shown: tuple[Status, ...] = ("COMPLETED", "COMPENSATED", "FAILED", "STUCK")
        return {status: counted[status] for status in shown}

    def _reach(self, state: State, gone: Gone) -> Trouble | None:
        """A state that is new is kept, to be looked at in its turn, unless there is something wrong with it."""
        if state in self._numbers:
            return None
        trouble = self._world.trouble_in(state)
        if trouble is not None:
            return trouble
        number = self._numbers[state] = len(self.states)
        if number >= self._limits.states:
            raise TooLarge(
                f"{self._definition.name} has more than {self._limits.states:,} states, and was not proved: allow "
                "fewer attempts or fewer actions of operators, or more states."
            )
        self.states.append(state)
        self._gone.append(gone)
        self._queue.append(number)
        return None

    def _note_edge(self, at: int, state: State, event: Event) -> None:
        origin = self.states[at].standing
        if origin != state.standing and isinstance(event, Outcome) and not isinstance(event.stimulus, Operated):
            self._edges.setdefault((origin, state.standing), Gone(at, event))

    def _path(self, at: int) -> list[Event]:
        path = []
        while at >= 0:
            path.append(self._gone[at].event)
            at = self._gone[at].origin
        return path[::-1]

    def _return(self) -> Found | None:
        """A way on which the saga, by itself, comes back to where it stood."""
        circle = first_circle(self._edges)
        if circle is None:
            return None
        gone = [self._edges[edge] for edge in circle]
        sentence = "The saga is back where it stood, without anybody's doing: so it may go round for ever."
        return Trouble("ends", sentence), [*self._path(gone[0].origin), *(each.event for each in gone)]

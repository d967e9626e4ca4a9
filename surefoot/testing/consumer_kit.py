"""Try a consumer without a broker or a database: deliver events, and see what it published and what became of them.

    kit = ConsumerKit(warehouse)
    await kit.deliver(OrderPaid(order_id="o-1"))
    assert kit.published == [StockReserved(order_id="o-1")]

Events go through the real encoding and back, and the consumer's own rules decide what a failure means. Nothing sleeps:
`advance` lets the rest between two attempts pass.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from surefoot.consumer import Consumer
from surefoot.events import Event, EventData, new_event
from surefoot.events.event import Command, Direction
from surefoot.testing.consumer_handling import Attempts, Faults, Store
from surefoot.testing.consumer_loop import Loop
from surefoot.testing.consumer_records import Dead, Delivered, KitMisuse, Outcome, delivered, identity
from surefoot.testing.consumer_records import shuffled as in_mixed_order

__all__ = ["ConsumerKit", "Dead", "KitMisuse", "Outcome"]

What = EventData | Event[EventData]


class ConsumerKit:
    def __init__(self, consumer: Consumer, *, session: object | None = None) -> None:
        """`session` is what handlers get as `tx.session`: an AsyncSession, or a stand-in of your own. Within an
        AsyncSession, what a failed attempt wrote is rolled back; to commit is up to the test."""
        self._consumer = consumer
        self._faults = Faults(consumer)
        self._store = Store(session)
        self._events: dict[tuple[str, str], Delivered] = {}
        self._loop = Loop(consumer, Attempts(consumer, self._store, self._faults))

    async def deliver(self, *what: What, times: int = 1) -> list[Event[EventData]]:
        """Deliver these, in this order, the whole sequence so many times. Data become an event with an id of its own;
        to deliver the same event later once more, give the Event: this returns them."""
        return await self._deliver([self._accepted(one) for one in what] * times)

    async def deliver_shuffled(self, *what: What, seed: int) -> list[Event[EventData]]:
        """Deliver these in another order that production could have: each key's events in this order, the keys mixed
        by chance. The same seed gives the same order."""
        return await self._deliver(in_mixed_order([self._accepted(one) for one in what], seed))

    async def command(
        self, data: EventData, *, saga: str, step: str, direction: Direction = "do", attempt: int = 1
    ) -> Event[EventData]:
        """Deliver a saga's command. Each call is a new event, as when the saga repeats itself."""
        command = Command(saga, step, direction, attempt)
        (event,) = await self.deliver(new_event(data, extensions=command.extensions()))
        return event

    def fail(self, function: str, *, error: Exception, on_call: int = 1, times: int = 1) -> None:
        """Let a handler (or an outside call, or its prepare), by its name, raise this instead of running: on its
        `on_call`th call from now, and so many times in a row."""
        self._faults.plan(function, on_call=on_call, times=times, error=error)

    async def advance(self) -> None:
        """Let the rests pass: whatever is parked, and has its turn, is tried once more; so is what waits."""
        await self._loop.advance()

    async def settle(self) -> None:
        """Advance until no event is left that trying again would change."""
        before = None
        while before != (before := self._attempts()):
            await self._loop.advance()

    @property
    def published(self) -> list[EventData]:
        """The data of what handlers published and replied, in order. What a failed attempt published is not there."""
        return [event.data for event in self._store.published]

    @property
    def published_events(self) -> list[Event[EventData]]:
        """The same as whole events: key, cause, correlation."""
        return list(self._store.published)

    @property
    def parked(self) -> list[EventData]:
        """Those that are to be tried again, and those that wait behind them on the same key."""
        return [one.event.data for one in self._events.values() if one.outcome == "PARKED"]

    @property
    def waiting(self) -> list[EventData]:
        """Those not taken yet, because something the consumer depends on is away."""
        return [one.event.data for one in self._events.values() if one.outcome == "WAITING"]

    @property
    def dead(self) -> list[Dead]:
        return [
            Dead(one.event.data, one.event, one.reason, one.error)
            for one in self._events.values()
            if one.reason is not None and one.error is not None
        ]

    @property
    def duplicates(self) -> int:
        """How many deliveries had no effect, because the consumer knew the event."""
        return self._loop.duplicates

    @property
    def ignored(self) -> int:
        """How many deliveries there was no handler for."""
        return self._loop.ignored

    def outcome_of(self, what: What) -> Outcome:
        return self._known(what).outcome

    def attempts_of(self, what: What) -> int:
        """How often it was tried, as far as it counts: a dependency that is away costs no attempt."""
        return self._known(what).attempts

    def error_of(self, what: What) -> Exception | None:
        """What its last failed attempt raised."""
        return self._known(what).error

    def __repr__(self) -> str:
        counts = Counter(one.outcome for one in self._events.values())
        story = [f"{number} {outcome}" for outcome, number in counts.items()] or ["nothing delivered"]
        story += [f"{one.event.type} raised {one.error!r}" for one in self._events.values() if one.error is not None]
        return f"<ConsumerKit {self._consumer.name}: {', '.join(story)}>"

    def _accepted(self, what: What) -> Delivered:
        event = what if isinstance(what, Event) else new_event(what)
        known = self._events.get(identity(event))
        if known is not None:
            return known
        if event.sequence is None:  # the relay gives it one
            event = replace(event, sequence=f"{len(self._events) + 1:020d}")
        return self._events.setdefault(identity(event), delivered(event, len(self._events)))

    def _known(self, what: What) -> Delivered:
        if isinstance(what, Event):
            found = [one for one in [self._events.get(identity(what))] if one is not None]
        else:
            found = [one for one in self._events.values() if one.event.data == what]
        if not found:
            raise KitMisuse(f"{what!r} was never delivered to this kit: deliver it first.")
        if len(found) > 1:
            raise KitMisuse(
                f"{len(found)} events with the data {what!r} were delivered, and it is not clear which of them is "
                "meant: ask for one of those that deliver returned."
            )
        return found[0]

    async def _deliver(self, sequence: Sequence[Delivered]) -> list[Event[EventData]]:
        await self._loop.deliver(sequence)
        return list({id(one): one.event for one in sequence}.values())

    def _attempts(self) -> int:
        return sum(one.attempts for one in self._events.values())

"""What a handler is given: values that every attempt shares, phases, calls, and a local route's transaction."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from surefoot.idempotency.request.attempt import Attempt
from surefoot.idempotency.request.minting import Mint, Minted
from surefoot.idempotency.request.phases import Answers, key_of_call, run_call, run_phase
from surefoot.idempotency.store import Tx
from surefoot.idempotency.values import PhaseMisuse

T = TypeVar("T")


class Hands(Protocol):
    """Does what a handler asks for, in the way of its route."""

    mint: Mint

    @property
    def tx(self) -> Tx: ...

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any: ...

    async def call(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any: ...

    async def provider_key(self, name: str) -> str: ...


class Idempotent:
    """Annotate a parameter of an idempotent handler with this to be given one."""

    __slots__ = ("_hands", "attempt", "protected", "tenant")

    def __init__(self, hands: Hands, *, tenant: str, attempt: int, protected: bool) -> None:
        self._hands = hands
        self.tenant = tenant
        """Who asks."""
        self.attempt = attempt
        """1 for the first."""
        self.protected = protected
        """Whether a retry of this request is recognised: not without a key, and not while the store is away."""

    @property
    def tx(self) -> Tx:
        """A local route's transaction, in which its answer is stored as well."""
        return self._hands.tx

    def mint(self, **factories: Any) -> Minted:
        """Ids and times that the answer will carry, by name: made by these functions now, or by an earlier attempt.

        Before the first phase or call: they are committed with the claim, before anything can have happened."""
        return self._hands.mint.mint(factories)

    async def phase(self, name: str, work: Callable[..., Awaitable[T]], *args: Any) -> T:
        """`await work(tx, *args)` in a transaction of its own; on resume not run, but what it returned comes again."""
        result: T = await self._hands.phase(name, work, args)
        return result

    async def call(self, name: str, function: Callable[..., Awaitable[T]], *args: Any, answers: Answers = ()) -> T:
        """`await function(*args, key=…)` with no transaction open, under a key that every attempt calls with.

        Exceptions of the types in `answers` are the provider's answer (a card that was declined) and come out as they
        are. Any other means that nobody knows what it did: the request is answered so, and made again."""
        result: T = await self._hands.call(name, function, args, answers)
        return result

    async def provider_key(self, name: str) -> str:
        """The key that the call of this name is made under, to be written down beside the work, in a phase."""
        return await self._hands.provider_key(name)


class LocalHands:
    """One transaction, given by the claim."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.mint = Mint({})

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        raise _only_outside("phase", name)

    async def call(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any:
        raise _only_outside("call", name)

    async def provider_key(self, name: str) -> str:
        raise _only_outside("call", name)


class OutsideHands:
    """Phases and calls of an attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.mint = attempt.mint

    @property
    def tx(self) -> Tx:
        raise PhaseMisuse(
            'A route with effect="outside" has no transaction that stays open: a provider is called in between. Use '
            "the tx that each phase is given."
        )

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        return await run_phase(self._attempt, name, work, args)

    async def call(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any:
        return await run_call(self._attempt, name, function, args, answers)

    async def provider_key(self, name: str) -> str:
        return key_of_call(self._attempt, name)


def _only_outside(what: str, name: str) -> PhaseMisuse:
    return PhaseMisuse(
        f'The {what} {name!r} needs a route with effect="outside". A local route has one transaction, request.tx, and '
        "no provider is called while it is open."
    )

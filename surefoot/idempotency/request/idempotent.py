"""What a handler is given: values that every attempt shares, phases, calls, and a local route's transaction. Pure.

Ids and times that the answer will carry are minted: made once, and the same on every attempt. They are kept as JSON
with the claim. Which of them were no plain JSON is kept beside them, so that they come back as what they were.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from surefoot.idempotency.values import PhaseMisuse

if TYPE_CHECKING:
    from surefoot.idempotency.store import Tx

T = TypeVar("T")
Answers = tuple[type[Exception], ...]
TYPES = "$types"
"""The reserved name under which the types are kept."""
RESOURCE = "id"
"""The name of what a client may look for when the outcome is unknown."""

_WRITERS: dict[str, Callable[[Any], str]] = {
    "datetime": datetime.isoformat,
    "date": date.isoformat,
    "UUID": str,  # also that of uuid_utils
    "Decimal": str,
}
_READERS: dict[str, Callable[[str], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "UUID": UUID,
    "Decimal": Decimal,
}


class Minted(SimpleNamespace):
    """What was minted, by name."""


class Mint:
    """What one request has minted, in this attempt or an earlier one."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._kept = dict(kept)
        self._types: dict[str, str] = dict(self._kept.pop(TYPES, {}))
        self.is_closed = False
        """Whether the claim is kept: what is minted now would not be durable before it is used."""

    @property
    def resource(self) -> str | None:
        value = self._kept.get(RESOURCE)
        return None if value is None else str(value)

    def kept(self) -> dict[str, Any]:
        return {**self._kept, TYPES: self._types} if self._types else dict(self._kept)

    def mint(self, factories: Mapping[str, Any]) -> Minted:
        new = [name for name in factories if name not in self._kept]
        if new and self.is_closed:
            raise PhaseMisuse(
                f"mint() was asked for {', '.join(new)} when the claim had been kept, without it: a resumed request "
                "would get another value. Mint everything before the first phase or call, also in a new version of "
                "the handler."
            )
        for name in new:
            self._add(name, factories[name])
        return Minted(**{name: self._read(name) for name in factories})

    def _add(self, name: str, factory: Any) -> None:
        if name.startswith("$"):
            raise PhaseMisuse(f"{name!r} cannot be minted: names that begin with $ are kept for the layer.")
        value = factory() if callable(factory) else factory
        if value is None or type(value) in (str, int, bool):
            self._kept[name] = value
            return
        kind = type(value).__name__
        if kind not in _WRITERS:
            raise PhaseMisuse(
                f"mint() got a {kind} for {name}. It takes texts, whole numbers, booleans, datetimes, "
                "dates, UUIDs, Decimals and None, or functions that return them."
            )
        self._kept[name] = _WRITERS[kind](value)
        self._types[name] = kind

    def _read(self, name: str) -> Any:
        value, kind = self._kept[name], self._types.get(name)
        return value if kind is None else _READERS[kind](value)


class Hands(Protocol):
    """Does what a handler asks for, in the way of its route."""

    mint: Mint

    @property
    def tx(self) -> "Tx": ...

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
    def tx(self) -> "Tx":
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

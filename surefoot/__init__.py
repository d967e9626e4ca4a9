"""Surefoot: events that are published if, and only if, your transaction commits, in the order of the commits.

The names of every day are here; each part has the rest under its own name:

    from surefoot import Catalogue, Consumer, EventData, Money, Saga, outbox

A name is loaded when it is first asked for: a program that only publishes never loads the HTTP layer.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot import outbox
    from surefoot.consumer import Consumer, DependencyDown, Permanent, Retry, Transaction, Transient
    from surefoot.events import Catalogue, Event, EventData, Money, Personal
    from surefoot.idempotency import Idempotency, Idempotent, idempotent
    from surefoot.saga import Saga

_HOMES = {
    "surefoot.consumer": ("Consumer", "DependencyDown", "Permanent", "Retry", "Transaction", "Transient"),
    "surefoot.events": ("Catalogue", "Event", "EventData", "Money", "Personal"),
    "surefoot.idempotency": ("Idempotency", "Idempotent", "idempotent"),
    "surefoot.saga": ("Saga",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Catalogue",
    "Consumer",
    "DependencyDown",
    "Event",
    "EventData",
    "Idempotency",
    "Idempotent",
    "Money",
    "Permanent",
    "Personal",
    "Retry",
    "Saga",
    "Transaction",
    "Transient",
    "idempotent",
    "outbox",
]


if not TYPE_CHECKING:  # a type checker knows the names above, and must refuse others

    def __getattr__(name: str) -> object:
        if name == "outbox":
            return import_module("surefoot.outbox")
        if name not in _HOME_OF:
            raise AttributeError(f"surefoot has no {name}: it may be in one of its packages, such as surefoot.events.")
        return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Listeners on the sessions and connections that publish, and on no others.

SQLAlchemy takes listeners for a class, which is every session of the process, or for one object. The second costs some
ten microseconds for each listener, and changes a list that SQLAlchemy may be walking through: the caller of `add` may
itself be a listener of this session. So we do what SQLAlchemy does for a connection, which calls the listeners of its
engine after its own: we join the object's list with ours. The object's own list stays as it is. A walk through it that
is under way goes on, and does not call us yet.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.engine.events import ConnectionEvents
from sqlalchemy.event import Events, EventTarget, dispatcher
from sqlalchemy.event.attr import _JoinedListener
from sqlalchemy.orm import Session, SessionEvents

F = TypeVar("F", bound=Callable[..., None])


class Listeners:
    """What is to be called for some events, by the objects that are joined, and only by these."""

    def __init__(self, events: type[Events[Any]]) -> None:
        class Nobody(EventTarget):
            dispatch = dispatcher(events)

        self._nobody = Nobody()
        self._names: list[str] = []

    def on(self, name: str) -> Callable[[F], F]:
        """Call the decorated function for this event."""

        def listen(function: F) -> F:
            event.listen(self._nobody, name, function)
            self._names.append(name)
            return function

        return listen

    def join(self, target: Session | Connection) -> bool:
        """From now on `target` calls these listeners, after its own. False: it did so before."""
        ours, theirs = self._nobody.dispatch, target.dispatch
        first = getattr(theirs, self._names[0])
        if isinstance(first, _JoinedListener) and first.parent_dispatch is ours:
            return False
        for name in self._names:
            setattr(theirs, name, _JoinedListener(ours, name, getattr(theirs, name)))
        return True


SESSIONS = Listeners(SessionEvents)
CONNECTIONS = Listeners(ConnectionEvents)


def listen_to_session(session: Session) -> bool:
    """False if somebody did so before."""
    return SESSIONS.join(session)


def listen_to_connection(connection: Connection) -> None:
    if CONNECTIONS.join(connection):
        connection._has_events = True  # else SQLAlchemy does not look for listeners

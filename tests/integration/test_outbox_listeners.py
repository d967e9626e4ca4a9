"""We listen to the sessions and connections that publish, and to no others; and hooks of the user's may be the first to
publish, whatever SQLAlchemy is doing just then."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from types import FrameType

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.event import contains, listen, listens_for, remove
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, SessionTransaction, mapped_column

from surefoot import outbox
from surefoot.database.address import sqlalchemy_url
from tests.support.event_types import ThingHappened

LISTENERS_AFTER_THE_IMPORT = """
import surefoot.outbox
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session
engine = create_engine("sqlite://")
with Session(engine) as session:
    for target in (session, engine, session.connection()):
        print(*(name for name in type(target).dispatch._event_names if getattr(target.dispatch, name)))
print(Engine._has_events, engine._has_events)
"""


class Base(DeclarativeBase):
    pass


class Work(Base):
    __tablename__ = "work"
    n: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(sqlalchemy_url(database_url, "psycopg"))
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def publish(session: Session, number: int) -> None:
    outbox.add(session, ThingHappened(thing_id="a", number=number))


def told(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT (payload ->> 'number')::int FROM surefoot.outbox ORDER BY position"))
        return list(found.scalars())


def listeners(target: Session | Connection | Engine) -> dict[str, int]:
    """How many there are for each event; nothing of an event without any."""
    found = {name: len(list(getattr(target.dispatch, name))) for name in type(target).dispatch._event_names}
    return {name: number for name, number in found.items() if number}


def test_importing_the_outbox_leaves_no_listener_on_sessions_and_engines() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS_AFTER_THE_IMPORT], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["", "", "", "False False"]


def test_a_session_that_does_not_publish_runs_none_of_our_code_and_has_no_listener(engine: Engine) -> None:
    with Session(engine) as session:
        publish(session, 1)
        session.commit()
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("surefoot"):
            entered.append(module)

    with Session(engine) as session:
        sys.setprofile(note)
        try:
            session.execute(text("SAVEPOINT s"))
            session.add(Work(n=1))
            session.begin_nested().rollback()
            on_the_connection = listeners(session.connection())
            session.commit()
        finally:
            sys.setprofile(None)
        assert (listeners(session), listeners(engine), on_the_connection) == ({}, {}, {})
    assert entered == []


def test_a_session_that_has_published_once_goes_on_being_safe(engine: Engine) -> None:
    with Session(engine) as session:
        publish(session, 1)
        session.commit()
        publish(session, 2)
        session.rollback()
        publish(session, 3)
        with session.begin_nested() as savepoint:
            publish(session, 4)
            savepoint.rollback()
        session.execute(text("SAVEPOINT s"))
        publish(session, 5)
        session.execute(text("ROLLBACK TO SAVEPOINT s"))
        session.commit()
        publish(session, 6)
        session.close()
        publish(session, 7)
        session.connection().commit()
        publish(session, 8)
        session.close()
    assert told(engine) == [1, 3, 7]


def test_a_savepoint_that_was_made_before_the_first_event_takes_it_along(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("SAVEPOINT s"))
        publish(session, 1)
        session.execute(text("ROLLBACK TO SAVEPOINT s"))
        publish(session, 2)
        session.commit()
    assert told(engine) == [2]


def test_a_connection_follows_each_of_the_sessions_that_publish_on_it(engine: Engine) -> None:
    with engine.begin() as connection:
        first, second = Session(connection), Session(connection)
        for session in (first, second):
            session.execute(text("SELECT 1"))
        publish(second, 1)
        connection.execute(text("SAVEPOINT s"))
        publish(first, 2)
        publish(second, 3)
        connection.execute(text("ROLLBACK TO SAVEPOINT s"))
        publish(first, 4)
    for session in (first, second):
        session.close()
    assert sorted(told(engine)) == [1, 4]


def test_listeners_do_not_become_more_with_each_event(engine: Engine) -> None:
    with engine.connect() as connection, Session(connection) as session:
        seen = set()
        for number in range(20):
            publish(session, number)
            session.flush()
            session.commit()
            seen.add((*listeners(session).items(), *listeners(connection).items()))
        assert len(seen) == 1
        assert set(dict(seen.pop()).values()) == {1}


@pytest.mark.parametrize("bound_to", ["the engine", "a connection"])
def test_a_session_that_is_dropped_without_being_closed_is_not_kept(engine: Engine, bound_to: str) -> None:
    connection = engine.connect()
    session = Session(engine if bound_to == "the engine" else connection)
    session.execute(text("SELECT 1"))
    publish(session, 1)
    seen: list[weakref.ref[Session | Connection]]
    seen = [weakref.ref(session), weakref.ref(session.connection()), weakref.ref(connection)]
    del session, connection
    gc.collect()
    assert [one() for one in seen] == [None, None, None]


def test_a_connection_that_lives_on_does_not_keep_the_session_that_published_on_it(engine: Engine) -> None:
    with engine.connect() as connection:
        session = Session(connection)
        publish(session, 1)
        session.commit()
        session.close()
        seen = weakref.ref(session)
        del session
        gc.collect()
        assert seen() is None


HOOKS = [
    "before_flush",
    "after_flush",
    "after_flush_postexec",
    "before_commit",
    "after_soft_rollback",
    "after_transaction_create",
    "after_transaction_end",
    "do_orm_execute",
]


@pytest.mark.parametrize("kind", ["the session", "its class"])
@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_of_the_users_may_be_the_first_to_publish(engine: Engine, name: str, kind: str) -> None:
    class Mine(Session):
        pass

    session = Mine(engine)
    added: list[bool] = []

    def hook(*_: object) -> None:
        if not added and ready:
            added.append(True)
            publish(session, 1)

    ready = False
    listen(session if kind == "the session" else Mine, name, hook)
    listen(session if kind == "the session" else Mine, name, lambda *_: None)  # SQLAlchemy goes on to call this one
    session.execute(text("SELECT 1"))
    ready = True
    if name.endswith(("rollback", "end")):  # the hook begins the next transaction
        session.rollback()
    session.execute(text("SELECT 1"))
    session.add(Work(n=1))
    session.commit()
    session.close()
    assert (added, told(engine)) == ([True], [1])


@pytest.mark.parametrize("name", ["before_cursor_execute", "before_execute", "savepoint"])
def test_a_hook_of_the_users_connection_may_be_the_first_to_publish(engine: Engine, name: str) -> None:
    with engine.begin() as connection, Session(connection) as session:
        session.execute(text("SELECT 1"))
        added: list[bool] = []

        def hook(*_: object) -> None:
            if not added:
                added.append(True)
                publish(session, 1)

        listen(connection, name, hook)
        listen(connection, name, lambda *_: None)
        session.connection().begin_nested().commit()
        session.commit()
    assert (added, told(engine)) == ([True], [1])


def test_hooks_of_the_users_go_on_being_called_once_and_can_be_removed(engine: Engine) -> None:
    called: list[str] = []
    with Session(engine) as session:
        before, after = lambda _: called.append("before"), lambda _: called.append("after")
        listen(session, "before_commit", before)
        publish(session, 1)
        listen(session, "before_commit", after)
        listens_for(session.connection(), "commit")(lambda _: called.append("connection"))
        session.commit()
        assert called == ["before", "after", "connection"]
        remove(session, "before_commit", before)
        assert not contains(session, "before_commit", before)
        publish(session, 2)
        session.commit()
    assert called == ["before", "after", "connection", "after"]
    assert told(engine) == [1, 2]


def test_the_first_event_of_a_session_may_come_while_a_savepoint_is_released(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("SELECT 1"))

        @listens_for(session, "before_commit", once=True)
        def _(_: Session) -> None:
            publish(session, 1)

        session.begin_nested().commit()
        session.commit()
    assert told(engine) == [1]


def test_an_event_in_a_savepoint_that_a_hook_of_the_flush_made_is_not_lost(engine: Engine) -> None:
    with Session(engine) as session:

        @listens_for(session, "after_flush")
        def _(*_: object) -> None:
            with session.begin_nested():
                publish(session, 1)
            with session.begin_nested() as undone:
                publish(session, 2)
                undone.rollback()

        session.add(Work(n=1))
        session.commit()
    assert told(engine) == [1]


@pytest.mark.parametrize("nested", [False, True])
def test_a_hook_that_raises_at_the_end_of_a_transaction_does_not_bring_its_events_back(
    engine: Engine, nested: bool
) -> None:
    class Spoilt(Exception):
        pass

    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        undone = session.begin_nested() if nested else None
        publish(session, 1)

        @listens_for(session, "after_transaction_end", once=True)
        def _(_: Session, ended: SessionTransaction) -> None:
            raise Spoilt

        with pytest.raises(Spoilt):
            undone.rollback() if undone else session.rollback()
        publish(session, 2)
        session.commit()
    assert told(engine) == [2]

"""Which sagas an event concerns, and what it says to them."""

from datetime import timedelta

import pytest

from surefoot.consumer.contracts import CommandFailed
from surefoot.errors import ConfigurationError
from surefoot.events import EventData, new_event
from surefoot.events.event import Command
from surefoot.log.port import TopicPartition, key_hash, partition_of
from surefoot.orchestrator.registry import Found, Registry, Sent, begins, entity_of, questions, read_reply, stimuli
from surefoot.orchestrator.silence import reader_of
from surefoot.saga import Saga
from surefoot.saga.stimulus import Arrived, Replied
from tests.support.corpus import each_of
from tests.support.saga.trips import (
    Book,
    Booked,
    Charged,
    Full,
    PaperReady,
    SendTicket,
    TicketSent,
    TripRequested,
    Unbooked,
    send_ticket,
    trip_saga,
)

SAGA = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
REGISTRY = Registry([trip_saga(1), trip_saga(2)])
TRIP = trip_saga().definition
NOTHING = Found({}, {})


def waiting_saga() -> Saga:
    saga = Saga("printing", version=1, starts_on=TripRequested, starts_when=lambda trip: trip.wants_ticket)
    saga.wait("paper", until=PaperReady, deadline=timedelta(days=1), entity="trip_id")
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    return saga


def reply_to(command: EventData, data: EventData) -> tuple[Found, object]:
    asked = new_event(command, key=SAGA, extensions=Command(SAGA, "book").extensions())
    return Found({asked.id: Sent(SAGA, "book", "do", 2)}, {}), new_event(data, caused_by=asked)


def test_a_saga_begins_with_its_newest_version() -> None:
    started = begins(REGISTRY, new_event(TripRequested(trip_id="t-1")))
    assert [(one.name, one.version) for one in started] == [("trip", 2)]


def test_an_event_that_its_saga_does_not_want_begins_none() -> None:
    registry = Registry([waiting_saga()])
    assert begins(registry, new_event(TripRequested(trip_id="t-1", wants_ticket=False))) == []
    assert len(begins(registry, new_event(TripRequested(trip_id="t-1", wants_ticket=True)))) == 1


def test_a_reply_is_for_the_command_it_answers() -> None:
    found, event = reply_to(Book(trip_id="t-1"), Booked(trip_id="t-1", seat="1A"))
    ((saga_id, reply),) = stimuli(REGISTRY, event, found)  # type: ignore[arg-type]
    assert saga_id == SAGA
    assert isinstance(reply, Replied)
    assert (reply.step, reply.direction, reply.attempt) == ("book", "do", 2)
    assert reply.result == {"type": "trip.booked", "version": 1, "data": {"trip_id": "t-1", "seat": "1A"}}


def test_a_reply_to_a_command_that_nobody_has_sent_is_for_nobody() -> None:
    _, event = reply_to(Book(trip_id="t-1"), Booked(trip_id="t-1", seat="1A"))
    assert stimuli(REGISTRY, event, NOTHING) == []  # type: ignore[arg-type]


@each_of(
    ("direction", "data", "answer"),
    [
        ("do", Booked(trip_id="t-1", seat="1A"), "done"),
        ("do", Full(trip_id="t-1"), "refused"),
        ("undo", Unbooked(trip_id="t-1"), "done"),
        ("undo", Booked(trip_id="t-1", seat="1A"), None),
        ("do", Unbooked(trip_id="t-1"), None),
        ("do", Charged(trip_id="t-1"), None),
    ],
)
def test_what_a_reply_means_depends_on_its_type(direction: str, data: EventData, answer: str | None) -> None:
    reply = Replied("book", direction, 1, "done")  # type: ignore[arg-type]
    read = read_reply(TRIP, reply, new_event(data))
    assert (None if read is None else read.answer) == answer


def test_a_command_that_died_names_its_saga_itself() -> None:
    died = CommandFailed(
        saga_id=SAGA, step="book", direction="undo", attempt=3, consumer="trip", reason="permanent", error="On fire."
    )
    event = new_event(died)
    assert stimuli(REGISTRY, event, NOTHING) == [
        (SAGA, Replied("book", "undo", 3, "failed", why="On fire.", event_id=event.id))
    ]


def test_what_is_waited_for_is_found_by_its_entity() -> None:
    registry = Registry([waiting_saga()])
    event = new_event(PaperReady(trip_id="t-1"))
    assert questions(registry, [event]).entities == [("printing", "t-1")]
    found = Found({}, {("printing", 1, "t-1"): [SAGA], ("printing", 2, "t-1"): ["another version"]})
    ((saga_id, arrived),) = stimuli(registry, event, found)
    assert (saga_id, isinstance(arrived, Arrived)) == (SAGA, True)


def test_an_entity_is_the_key_unless_a_member_is_named() -> None:
    event = new_event(PaperReady(trip_id="t-1"), key="another key")
    assert (entity_of(None, event), entity_of("trip_id", event)) == ("another key", "t-1")


def test_two_definitions_of_one_version_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two definitions of trip version 1"):
        Registry([trip_saga(1), trip_saga(1)])


def test_a_version_that_is_not_there_is_asked_for() -> None:
    with pytest.raises(ConfigurationError, match="trip version 3 under way"):
        REGISTRY.definition("trip", 3)


def test_commands_are_read_by_the_consumer_that_their_topic_is_named_for() -> None:
    partition = partition_of(key_hash(SAGA.encode()), 8)
    expected = ("trip", TopicPartition("trip.commands", partition))
    assert reader_of(TRIP.step("send_ticket"), "do", SAGA) == expected


def test_a_function_that_does_not_say_what_it_sends_has_no_known_reader() -> None:
    saga = Saga("untyped", version=1, starts_on=TripRequested)
    saga.step("print", do=lambda trip: SendTicket(trip_id=trip.trip_id), done_on=TicketSent, nothing_to_undo=True)
    assert reader_of(saga.definition.step("print"), "do", SAGA) is None

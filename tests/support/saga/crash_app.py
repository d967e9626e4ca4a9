"""The sagas that the crash tests run in processes of their own, and the topics they are on.

The test says by the environment under which name everything goes (the broker is shared), how long steps may take, and
which trip cannot be charged for as long as a file lies there.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from surefoot.consumer import Permanent, Retry
from surefoot.consumer.contracts import dlq_outcomes, saga_replies
from surefoot.events import Topic
from surefoot.saga import Saga
from tests.support.saga import trips
from tests.support.saga.trips import Booked, Charge, OfTrip, TripRequested, trip_commands, trip_events
from tests.support.topic_settings import set_topic

NAME = "SUREFOOT_TEST_SAGA_NAME"
TIMEOUT_S = "SUREFOOT_TEST_SAGA_TIMEOUT_S"
ATTEMPTS = "SUREFOOT_TEST_SAGA_ATTEMPTS"
UNDO_ATTEMPTS = "SUREFOOT_TEST_SAGA_UNDO_ATTEMPTS"
POISON = "SUREFOOT_TEST_SAGA_POISON"
"""The path of a file: while it lies there, nobody can work out how to charge for the trip that it names."""
TOPICS: dict[str, Topic] = {
    "events": trip_events,
    "commands": trip_commands,
    "replies": saga_replies,
    "outcomes": dlq_outcomes,
}


@trips.trips.event("trip.insure", topic=trip_commands, key="trip_id")
class Insure(OfTrip):
    pass


@trips.trips.event("trip.uninsure", topic=trip_commands, key="trip_id")
class Uninsure(OfTrip):
    pass


@trips.trips.event("trip.insured", topic=trip_events, key="trip_id")
class Insured(OfTrip):
    pass


@trips.trips.event("trip.uninsured", topic=trip_events, key="trip_id")
class Uninsured(OfTrip):
    pass


def orchestrator_name(name: str) -> str:
    return f"{name}.orchestrator"


@contextmanager
def topics_of(name: str) -> Iterator[list[str]]:
    """Put everything on topics of this name for a while. The service that reads commands goes by that name."""
    before = {part: topic.name for part, topic in TOPICS.items()}
    rename_topics({part: f"{name}.{part}" for part in TOPICS})
    try:
        yield [topic.name for topic in TOPICS.values()]
    finally:
        rename_topics(before)


def rename_topics(names: Mapping[str, str]) -> None:
    for part, topic in TOPICS.items():
        set_topic(topic, name=names[part])


def insure(trip: TripRequested) -> Insure:
    return Insure(trip_id=trip.trip_id)


def uninsure(trip: TripRequested) -> Uninsure:
    return Uninsure(trip_id=trip.trip_id)


def charge(trip: TripRequested, booked: Booked) -> Charge:
    poison = os.environ.get(POISON)
    if poison and Path(poison).exists() and Path(poison).read_text() == trip.trip_id:
        raise Permanent(f"nobody knows how to charge for {trip.trip_id}, for now")
    return trips.charge(trip, booked)


def saga(version: int, *, insured: bool = False, ticket: bool = True) -> Saga:
    made = Saga("trip", version=version, starts_on=TripRequested)
    timeout = timedelta(seconds=float(os.environ.get(TIMEOUT_S, "30")))
    rest = timedelta(milliseconds=100)
    retry = Retry(attempts=int(os.environ.get(ATTEMPTS, "2")), first=rest, longest=rest)
    undo_retry = Retry(attempts=int(os.environ.get(UNDO_ATTEMPTS, "3")), first=rest, longest=4 * rest)
    often: dict[str, Any] = {"timeout": timeout, "retry": retry, "undo_retry": undo_retry}
    made.step(
        "book",
        do=trips.book,
        done_on=Booked,
        refused_on=trips.Full,
        undo=trips.unbook,
        undone_on=trips.Unbooked,
        **often,
    )
    made.step(
        "charge",
        do=charge,
        done_on=trips.Charged,
        refused_on=trips.Declined,
        undo=trips.refund,
        undone_on=trips.Refunded,
        **often,
    )
    if insured:
        made.step("insure", do=insure, done_on=Insured, undo=uninsure, undone_on=Uninsured, **often)
    made.pivot("confirm", do=trips.confirm, done_on=trips.Confirmed, timeout=timeout, retry=retry)
    if ticket:
        made.step("send_ticket", do=trips.send_ticket, done_on=trips.TicketSent, timeout=timeout, retry=retry)
    made.tell("COMPENSATED", trips.over)
    return made


sagas = [saga(1)]
old_and_new = [*sagas, saga(2, insured=True)]
only_new = [old_and_new[1]]
changed = [saga(1, ticket=False)]

if NAME in os.environ:  # in an orchestrator of ours
    rename_topics({part: f"{os.environ[NAME]}.{part}" for part in TOPICS})

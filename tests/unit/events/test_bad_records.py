"""The corpus of bad records: each is refused for the reason that the documents give, and none does worse."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from surefoot.events import BadRecord, Envelope, Event, EventType, decode, event_type_of, to_event
from surefoot.events.binding import BadRecordReason
from surefoot.log.port import Record, record_bytes
from tests.support.bad_records import CASES, BadCase, bent_records
from tests.support.bad_records.case import good_binary, good_binary_paid, good_structured, good_structured_paid
from tests.support.corpus import each_of
from tests.support.event_types import ThingHappened, ThingPaid, things

HAPPENED = event_type_of(ThingHappened)
HANDLED: dict[str, EventType[Any]] = {"thing.happened": HAPPENED, "thing.paid": event_type_of(ThingPaid)}
REASONS = set(get_args(BadRecordReason))
LONGEST_SECONDS = 0.5
LONGEST_SENTENCE = 500

every_case = each_of("case", CASES, named=lambda case: case.name)


def envelope_of(record: Record) -> Envelope:
    return decode(record.headers, record.value, record.key)


def take(record: Record) -> Event[Any]:
    """As a consumer does: the type decides the declaration. One that has no handler, it would not look at at all."""
    envelope = envelope_of(record)
    return to_event(envelope, HANDLED[envelope.type])


def verdict(record: Record) -> str:
    """`event`, or the reason why it is none. A foreign type gives wrong_type here."""
    try:
        envelope = envelope_of(record)
        to_event(envelope, HANDLED.get(envelope.type, HAPPENED))
    except BadRecord as bad:
        return bad.reason
    return "event"


def seconds_to_judge(record: Record) -> float:
    """Of this thread's own work: a busy machine does not count."""
    started = time.thread_time()
    verdict(record)
    return time.thread_time() - started


@every_case
def test_a_bad_record_is_refused_for_its_reason(case: BadCase) -> None:
    with pytest.raises(BadRecord) as refused:
        take(case.record)
    assert refused.value.reason == case.reason
    assert str(refused.value).endswith(".")
    assert len(str(refused.value)) <= LONGEST_SENTENCE


@every_case
def test_a_bad_record_is_known_by_its_id_or_not_at_all(case: BadCase) -> None:
    if case.identified:
        envelope = envelope_of(case.record)
        assert (envelope.source, envelope.id) == ("/tests", case.name)
        assert envelope.type in HANDLED
    else:
        with pytest.raises(BadRecord):
            envelope_of(case.record)


def test_every_bad_record_is_refused_soon() -> None:
    assert [case.name for case in CASES if seconds_to_judge(case.record) > LONGEST_SECONDS] == []


@pytest.mark.parametrize(
    ("good", "data"),
    [
        (good_binary, ThingHappened),
        (good_binary_paid, ThingPaid),
        (good_structured, ThingHappened),
        (good_structured_paid, ThingPaid),
    ],
)
def test_the_records_that_bad_ones_are_bent_from_are_good(good: Callable[[str], Record], data: type) -> None:
    event = take(good("e-1"))
    assert type(event.data) is data
    assert (event.source, event.id, event.key, event.version) == ("/tests", "e-1", "e-1", 1)


def test_there_are_many_and_no_two_are_the_same() -> None:
    assert len(CASES) == 736
    assert [name for name, times in Counter(case.name for case in CASES).items() if times > 1] == []
    bare = Counter(_without_its_name(case) for case in CASES)
    assert [record for record, times in bare.items() if times > 1] == []


def _without_its_name(case: BadCase) -> Record:
    """The record as if all cases had the same name: what is left must differ."""
    name = case.name.encode()
    key, value, headers = case.record
    return Record(
        key and key.replace(name, b"*"),
        value and value.replace(name, b"*"),
        tuple((header, raw and raw.replace(name, b"*")) for header, raw in headers),
    )


def test_every_reason_that_a_consumer_can_meet_is_there_several_times() -> None:
    times = Counter(case.reason for case in CASES)
    # A consumer picks the declaration by the type, so the type is never wrong: one without a handler is ignored.
    assert set(times) == REASONS - {"wrong_type"}
    assert min(times.values()) >= 4


def test_every_bad_record_can_be_put_on_a_topic() -> None:
    for case in CASES:
        assert record_bytes(case.record) < things.max_record_bytes, case.name
        assert not any("\0" in name for name, _ in case.record.headers), case.name  # the Postgres log could not hold it


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it would hide the failure that it is printed for
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(bent_records())
def test_a_bent_record_is_an_event_or_a_bad_record_and_soon_so(record: Record) -> None:
    assert seconds_to_judge(record) <= LONGEST_SECONDS
    first = verdict(record)
    assert first in REASONS | {"event"}
    assert verdict(record) == first, "a redelivery must not be judged otherwise"


def test_bending_gives_good_and_bad_records_of_many_kinds() -> None:
    verdicts: set[str] = set()

    @settings(max_examples=500, derandomize=True, database=None, phases=[Phase.generate])
    @given(bent_records())
    def gather(record: Record) -> None:
        verdicts.add(verdict(record))

    gather()
    assert verdicts >= {"event", "null_value", "not_an_event", "too_many_headers", "not_utf8", "duplicate_attribute"}
    assert verdicts >= {"bad_specversion", "missing_id", "unsupported_format", "invalid_json", "invalid_data"}

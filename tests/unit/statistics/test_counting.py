"""What a record counts as."""

from hypothesis import given
from hypothesis import strategies as st

from consumers.statistics.counting import MAX_NAMES, Counted, add, counted, moment

NOON = 1_800_000_000.0
"""A time at the start of a minute, in seconds since 1970."""


def headers_of(event_type: str) -> list[tuple[str, bytes | None]]:
    return [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/x"), ("ce_type", event_type.encode())]


def test_an_event_counts_by_its_type() -> None:
    assert counted("order.events", headers_of("order.placed"), b"{}") == (Counted("events", "order.placed"),)


def test_an_event_in_structured_mode_counts_by_its_type() -> None:
    value = b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "order.placed"}'
    headers = [("content-type", b"application/cloudevents+json")]
    assert counted("order.events", headers, value) == (Counted("events", "order.placed"),)


def test_an_outcome_of_a_saga_counts_as_event_and_as_outcome() -> None:
    assert counted("sagas", headers_of("saga.stuck"), b"{}") == (
        Counted("events", "saga.stuck"),
        Counted("sagas", "saga.stuck"),
    )


def test_a_record_that_is_no_event_counts_as_just_that() -> None:
    assert counted("order.events", [], b"junk") == (Counted("events", "not_an_event"),)


def test_a_tombstone_is_no_event() -> None:
    assert counted("order.events", [], None) == (Counted("events", "not_an_event"),)


def test_json_nested_too_deeply_to_be_read_is_no_event() -> None:
    headers = [("content-type", b"application/cloudevents+json")]
    assert counted("order.events", headers, b"[" * 200_000) == (Counted("events", "not_an_event"),)


def test_a_dead_letter_counts_by_consumer_and_reason_and_not_as_the_event_it_carries() -> None:
    headers = [*headers_of("order.placed"), ("surefoot-consumer", b"warehouse"), ("surefoot-reason", b"attempts")]
    assert counted("order.events.dlq", headers, b"{}") == (
        Counted("dead-letters", "warehouse"),
        Counted("dead-letter-reasons", "attempts"),
    )


def test_a_dead_letter_that_names_nobody_counts_all_the_same() -> None:
    assert counted("order.events.dlq", [("surefoot-consumer", b"\xff")], None) == (
        Counted("dead-letters", "not_an_event"),
        Counted("dead-letter-reasons", "no_reason"),
    )


def test_a_long_name_is_cut() -> None:
    [event] = counted("order.events", headers_of("a." * 300), b"{}")
    assert event.name == "a." * 100
    consumer, _ = counted("order.events.dlq", [("surefoot-consumer", b"c" * 300)], b"{}")
    assert consumer.name == "c" * 200


@given(
    topic=st.sampled_from(["order.events", "order.events.dlq"]),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["ce_type", "ce_id", "content-type", "surefoot-consumer", "surefoot-reason"]) | st.text(),
            st.none() | st.binary() | st.just(b"application/cloudevents+json"),
        )
    ),
    value=st.none() | st.binary(),
)
def test_no_record_raises_and_each_counts_as_something(
    topic: str, headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    assert len(counted(topic, headers, value)) >= 1


def test_names_are_counted_one_by_one() -> None:
    counts: dict[str, int] = {}
    for name in ("b", "a", "b"):
        add(counts, name)
    assert counts == {"a": 1, "b": 2}


def test_a_minute_has_so_many_names_and_the_rest_together() -> None:
    counts: dict[str, int] = {}
    for number in range(MAX_NAMES + 20):
        add(counts, f"type.{number}")
    add(counts, "type.0")
    assert len(counts) == MAX_NAMES + 1
    assert counts["others"] == 20
    assert counts["type.0"] == 2


def test_a_record_is_counted_at_its_own_time() -> None:
    assert moment(NOON - 90, NOON) == NOON - 90


def test_a_record_from_the_future_is_counted_now() -> None:
    assert moment(NOON + 86_400, NOON) == NOON


def test_a_record_without_a_time_is_counted_now() -> None:
    assert moment(None, NOON) == NOON
    assert moment(-0.001, NOON) == NOON  # Kafka's word for none is -1 ms


def test_what_is_older_than_the_last_sixty_minutes_is_not_counted() -> None:
    assert moment(NOON - 59 * 60, NOON) == NOON - 59 * 60
    assert moment(NOON - 59 * 60 - 1, NOON) is None
    assert moment(0, NOON) is None

"""Records between the poll and the batch: bounded by number and by bytes."""

from surefoot.consumer_runtime.buffer import Buffer, PollSize
from surefoot.consumer_runtime.settings import ConsumerSettings
from tests.support.consumer.records import raw


def settings(**changes: int) -> ConsumerSettings:
    return ConsumerSettings(**{"batch_records": 3, "buffer_records": 6, **changes})  # type: ignore[arg-type]


def offsets(buffer: Buffer) -> list[int]:
    return [record.offset for record in buffer.take(3)]


def test_a_batch_has_so_many_records_and_no_more() -> None:
    buffer = Buffer(settings(), expected=0)
    buffer.put([raw(b"x", offset=n) for n in range(5)])
    assert [offsets(buffer), offsets(buffer), offsets(buffer)] == [[0, 1, 2], [3, 4], []]


def test_a_batch_has_so_many_bytes_but_at_least_one_record() -> None:
    buffer = Buffer(settings(batch_bytes=1024), expected=0)
    buffer.put([raw(b"x" * size, key=None, offset=n) for n, size in enumerate([5000, 600, 400, 600, 1])])
    assert [offsets(buffer), offsets(buffer), offsets(buffer)] == [[0], [1, 2], [3, 4]]


def test_what_was_given_before_is_not_taken_again() -> None:
    buffer = Buffer(settings(), expected=2)
    buffer.put([raw(b"x", offset=n) for n in (0, 1, 2)])
    buffer.put([raw(b"x", offset=n) for n in (2, 3)])
    assert offsets(buffer) == [2, 3]
    assert buffer.expected == 4


def test_holes_in_the_log_are_fine() -> None:
    buffer = Buffer(settings(), expected=0)
    buffer.put([raw(b"x", offset=n) for n in (0, 7)])
    assert buffer.expected == 8
    assert offsets(buffer) == [0, 7]


def fullness(buffer: Buffer) -> tuple[bool, bool]:
    return buffer.is_full, buffer.has_room


def test_it_is_full_at_its_number_and_has_room_when_less_than_half_is_left() -> None:
    buffer = Buffer(settings(), expected=0)
    assert fullness(buffer) == (False, True)
    buffer.put([raw(b"x", offset=n) for n in range(6)])
    assert fullness(buffer) == (True, False)
    offsets(buffer)
    assert fullness(buffer) == (False, False)
    offsets(buffer)
    assert fullness(buffer) == (False, True)
    assert len(buffer) == 0


def test_bytes_fill_it_too_and_many_headers_count() -> None:
    buffer = Buffer(settings(buffer_bytes=1024), expected=0)
    buffer.put([raw(None, [*[("h", b"x" * 11)] * 100, ("null", None)], offset=0)])
    assert fullness(buffer) == (True, False)
    offsets(buffer)
    assert fullness(buffer) == (False, True)


def test_what_is_asked_for_at_most_doubles_from_poll_to_poll() -> None:
    size = PollSize(settings(buffer_records=4000))
    asked = [size.records]
    for _ in range(7):
        size.learn([[raw(b"x", offset=0)], [raw(b"y", offset=0)]])
        asked.append(size.records)
    assert asked == [100, 200, 400, 800, 1600, 3200, 4000, 4000]


def test_of_large_records_few_are_asked_for_at_once() -> None:
    size = PollSize(settings(buffer_records=4000, buffer_bytes=10_000))
    size.learn([[raw(b"x" * 1000, offset=0)]])
    assert size.records == 10
    size.learn([[raw(b"x" * 50_000, offset=1)]])
    assert size.records == 1
    size.learn([])
    assert size.records == 1

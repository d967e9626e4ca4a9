"""Rows keep their order on the way to partitions, and a refusal stops only its own key."""

from datetime import timedelta

from surefoot.log.port import Acknowledged, Refused, TopicPartition, TopicSpec
from surefoot.relay.plan import PendingRow, plan, record_of, split
from tests.support.corpus import each_of

FOUR = TopicSpec("t", 4, timedelta(days=1), 1000)


def row(position: int, key: str, key_hash: int, topic: str = "t") -> PendingRow:
    return PendingRow(position, 0, key_hash, topic, key, b"{}", '[["ce_id","x"]]', 0)


def test_rows_go_to_the_partition_of_their_key_in_order() -> None:
    rows = [row(1, "a", 5), row(2, "b", 6), row(3, "a", 5), row(4, "c", 9)]
    planned = plan(rows, {"t": FOUR})
    assert {where: [r.position for r in batch.rows] for where, batch in planned.batches.items()} == {
        TopicPartition("t", 1): [1, 3, 4],
        TopicPartition("t", 2): [2],
    }
    assert planned.refused == []


def test_of_a_missing_topic_only_the_head_of_each_key_is_refused() -> None:
    rows = [row(1, "a", 5, "gone"), row(2, "a", 5, "gone"), row(3, "b", 6, "gone"), row(4, "c", 7)]
    planned = plan(rows, {"t": FOUR, "gone": None})
    assert [(r.row.position, r.reason) for r in planned.refused] == [(1, "unknown_topic"), (3, "unknown_topic")]
    assert planned.refused[0].sentence == "The log has no topic 'gone'."
    assert [[r.position for r in batch.rows] for batch in planned.batches.values()] == [[4]]


def test_rows_after_a_refused_one_stay_pending() -> None:
    rows = [row(1, "a", 1), row(2, "b", 1), row(3, "c", 1)]
    published, refused = split(rows, Refused(1, "too_large", "Too large."))
    assert [r.position for r in published] == [1]
    assert [(r.row.position, r.sentence) for r in refused] == [(2, "Too large.")]


def test_acknowledged_rows_are_all_published() -> None:
    rows = [row(1, "a", 1), row(2, "b", 1)]
    assert split(rows, Acknowledged(2)) == (rows, [])


def test_a_record_carries_its_position_as_a_padded_sequence() -> None:
    record = record_of(row(42, "é", 1))
    assert record is not None
    assert record.key == "é".encode()
    assert record.headers == [("ce_id", b"x"), ("ce_sequence", b"00000000000000000042")]


@each_of(
    "headers", ['[["a",null]]', '[["a",1]]', '[[1,"x"]]', '["abc"]', "null", '[["a","b","c"]]', "7", "{}x", '{"a":"b"}']
)
def test_a_row_with_odd_headers_is_refused_and_stops_only_its_own_key(headers: str) -> None:
    odd = row(1, "a", 5)._replace(headers=headers)
    planned = plan([odd, row(2, "a", 5), row(3, "b", 5)], {"t": FOUR})
    assert [(r.row.position, r.reason) for r in planned.refused] == [(1, "rejected")]
    assert [[r.position for r in batch.rows] for batch in planned.batches.values()] == [[3]]

"""The hash that two people agree on says exactly which dead letters, and which deaths of theirs."""

from surefoot.dlq.jobs.request import Line, set_hash
from tests.support.corpus import each_of

ONE = Line("0192f0c1-0000-7000-8000-000000000001", "warehouse", "/orders", "e-1", 1, "letter-1")
OTHER = Line("0192f0c1-0000-7000-8000-000000000002", "billing", "/orders", "e-2", 1, "letter-2")


def test_the_order_in_which_they_come_does_not_matter() -> None:
    assert set_hash([ONE, OTHER]) == set_hash([OTHER, ONE])


def test_it_is_sha_256_over_lines_of_json_so_that_others_can_check_it() -> None:
    # printf '["…001","warehouse","/orders","e-1",1,"letter-1"]\n' | sha256sum
    assert set_hash([ONE]) == "932b5208129a793e661f3774086b18ae745d269e3e859c6f4d02058eb3db2a71"


@each_of(
    "changed",
    [
        ONE._replace(deaths=2),
        ONE._replace(letter_id="letter-9"),
        ONE._replace(event_id="e-9"),
        ONE._replace(consumer="billing"),
        ONE._replace(source="/returns"),
        ONE._replace(dlq_id=OTHER.dlq_id),
    ],
)
def test_anything_else_about_one_of_them_is_another_set(changed: Line) -> None:
    assert set_hash([changed, OTHER]) != set_hash([ONE, OTHER])


def test_one_more_or_one_less_is_another_set() -> None:
    assert len({set_hash([]), set_hash([ONE]), set_hash([ONE, OTHER])}) == 3


def test_no_text_passes_for_the_end_of_one_and_the_beginning_of_another() -> None:
    tricky = ONE._replace(consumer='warehouse","/orders')
    assert set_hash([tricky]) != set_hash([ONE])
    newline = ONE._replace(letter_id="letter-1\n" + OTHER.dlq_id)
    assert set_hash([newline]) != set_hash([ONE, OTHER])

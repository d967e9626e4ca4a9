"""The third act is well only if every event is accounted for, every label was printed once, and all of it in time."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from services.demo.dead_letters import Ended, show
from surefoot.testing.balance import Balance
from tests.support.corpus import each_of

BALANCE = Balance(
    "demo-labels",
    published=906,
    edited=1,
    processed=602,
    ignored=302,
    barred=0,
    parked=0,
    dead=0,
    superseded=1,
    discarded=1,
)
WELL = Ended(BALANCE, wanted=301, printed=301, twice=0, in_time=True)


def told(ended: Ended) -> str:
    file = StringIO()
    show(ended, Console(file=file, width=120))
    return file.getvalue()


def test_where_all_adds_up_it_is_well() -> None:
    assert WELL.is_well
    assert "✓ Every event is accounted for" in told(WELL)


@each_of(
    "ended",
    [
        replace(WELL, balance=replace(BALANCE, processed=601)),
        replace(WELL, balance=replace(BALANCE, dead=1)),
        replace(WELL, balance=replace(BALANCE, published=907)),
        replace(WELL, printed=300),
        replace(WELL, twice=1),
        replace(WELL, in_time=False),
    ],
)
def test_an_event_that_is_missing_or_a_label_too_many_is_not_well(ended: Ended) -> None:
    assert not ended.is_well
    assert "✓" not in told(ended)
    assert "✗" in told(ended)

"""A saga is drawn as a Mermaid flowchart."""

from datetime import timedelta

import pytest

from surefoot.saga import Saga
from surefoot.saga.diagram import diagram, lasting
from tests.support.saga.order_sagas import order_saga, reserve, send
from tests.support.shop_types import Collected, OrderWanted, ParcelSent, StockReserved
from tests.unit.saga.test_waits_and_branches import branching_saga


def by(order: OrderWanted) -> str:
    return "a"


def test_an_order_is_drawn_from_top_to_bottom_and_back() -> None:
    assert (
        diagram(order_saga().definition)
        == """\
flowchart TD
    START(["order.wanted"])
    reserve["reserve<br/>stock.reserved<br/>undo: stock.released"]
    pay["pay<br/>payment.captured<br/>undo: payment.refunded"]
    confirm{{"confirm<br/>order.confirmed<br/>point of no return"}}
    ship["ship<br/>parcel.sent"]
    COMPLETED(["COMPLETED"])
    UNDONE(["COMPENSATED, or FAILED if nothing was done"])
    STUCK(["STUCK"])
    START --> reserve
    reserve -.-> |"refused or undone"| UNDONE
    reserve --> pay
    pay -.-> |"refused or undone"| reserve
    pay --> confirm
    confirm -.-> |"refused"| pay
    confirm -.-> |"no answer"| STUCK
    confirm --> ship
    ship --> COMPLETED
"""
    )


def test_branches_part_and_join_and_go_back_by_every_way_they_came() -> None:
    assert (
        diagram(branching_saga().definition)
        == """\
flowchart TD
    START(["order.wanted"])
    reserve["reserve<br/>stock.reserved<br/>undo: stock.released"]
    kind{"kind"}
    collected[/"collected<br/>waits for carrier.collected"/]
    wrapped{"wrapped"}
    ship["ship<br/>parcel.sent<br/>undo: payment.refunded"]
    confirm["confirm<br/>order.confirmed"]
    COMPLETED(["COMPLETED"])
    UNDONE(["COMPENSATED, or FAILED if nothing was done"])
    START --> reserve
    reserve -.-> |"undone"| UNDONE
    reserve --> kind
    kind --> |"gift"| collected
    collected -.-> |"late: 1 day"| reserve
    collected --> wrapped
    wrapped --> |"paper"| ship
    ship -.-> |"undone"| reserve
    ship --> confirm
    wrapped --> |"none"| confirm
    kind --> |"plain"| confirm
    confirm -.-> |"refused or no answer"| ship
    confirm -.-> |"refused or no answer"| reserve
    confirm --> COMPLETED
"""
    )


def test_what_waits_for_a_person_leads_to_stuck_and_words_of_mermaid_are_no_trouble() -> None:
    saga = Saga("odd", version=1, starts_on=OrderWanted)
    saga.step("end", do=reserve, done_on=(StockReserved, ParcelSent), nothing_to_undo=True, when_dead="wait")
    saga.branch("way", by=by).path('the "red" one').wait("click", until=Collected, deadline=timedelta(hours=36))
    saga.step("graphs", do=send, done_on=ParcelSent, nothing_to_undo=True)
    assert (
        diagram(saga.definition)
        == """\
flowchart TD
    START(["order.wanted"])
    end_["end<br/>stock.reserved or parcel.sent"]
    way{"way"}
    click_[/"click<br/>waits for carrier.collected"/]
    graphs["graphs<br/>parcel.sent"]
    COMPLETED(["COMPLETED"])
    UNDONE(["COMPENSATED, or FAILED if nothing was done"])
    STUCK(["STUCK"])
    START --> end_
    end_ -.-> |"no answer"| STUCK
    end_ --> way
    way --> |"the #quot;red#quot; one"| click_
    click_ -.-> |"late: 1 day 12 hours"| STUCK
    click_ --> graphs
    graphs -.-> |"no answer"| UNDONE
    graphs --> COMPLETED
"""
    )


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (timedelta(days=5), "5 days"),
        (timedelta(hours=1, minutes=30), "1 hour 30 minutes"),
        (timedelta(seconds=61), "1 minute 1 second"),
        (timedelta(milliseconds=500), "0.5 seconds"),
    ],
)
def test_times_are_said_in_words(time: timedelta, words: str) -> None:
    assert lasting(time) == words

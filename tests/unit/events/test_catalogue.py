"""The catalogue: an event type is declared once, and a mistake is a sentence at import."""

from typing import Annotated, Any, NewType, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from surefoot.errors import ConfigurationError, InvalidEvent, UndeclaredEvent
from surefoot.events import Catalogue, EventData, Money, Topic, event_type_of
from tests.support.corpus import each_of
from tests.support.order_types import OrderNoted, OrderPlaced, OrderPlacedV2, order_events, orders, placed

OrderNumber = NewType("OrderNumber", int)


def test_a_declaration_is_found_by_class_and_by_data() -> None:
    declared = event_type_of(OrderPlaced)
    assert declared is event_type_of(placed())
    assert (declared.name, declared.version, declared.topic) == ("order.placed", 1, order_events)
    assert (declared.model, declared.source) == (OrderPlaced, "/orders")
    assert declared.dataschema == "urn:surefoot:order.placed:1"


def test_a_declaration_is_found_by_name_and_version() -> None:
    assert orders.find("order.placed", 1) is event_type_of(OrderPlaced)
    assert orders.find("order.placed", 2) is event_type_of(OrderPlacedV2)
    assert orders.find("order.placed", 3) is None
    assert orders.find("order.paid", 1) is None


def test_a_catalogue_lists_its_types() -> None:
    assert [each.model for each in orders] == [OrderPlaced, OrderPlacedV2, OrderNoted]
    assert len(orders) == 3


def test_an_undeclared_class_is_refused() -> None:
    class Stranger(EventData):
        pass

    with pytest.raises(UndeclaredEvent, match="Stranger was never declared"):
        event_type_of(Stranger)


def test_a_child_of_a_declared_class_is_undeclared() -> None:
    class OrderPlacedOnline(OrderPlaced):
        channel: str = "web"

    with pytest.raises(UndeclaredEvent, match="a declared parent is not enough"):
        event_type_of(OrderPlacedOnline(order_id="o-1", total=Money(1, "EUR")))


def test_a_child_of_a_declared_class_may_be_declared_itself(catalogue: Catalogue, topic: Topic) -> None:
    @catalogue.event("order.placed_online", topic=topic, key="order_id")
    class OrderPlacedOnline(OrderPlaced):
        channel: str = "web"

    assert event_type_of(OrderPlacedOnline).name == "order.placed_online"
    assert event_type_of(OrderPlaced).name == "order.placed"


def test_the_key_is_the_named_field_as_text(catalogue: Catalogue, topic: Topic) -> None:
    @catalogue.event("a.numbered", topic=topic, key="number")
    class Numbered(EventData):
        number: OrderNumber

    assert event_type_of(OrderPlaced).key_of(placed("o-7")) == "o-7"
    assert event_type_of(Numbered).key_of(Numbered(number=OrderNumber(42))) == "42"
    identity = UUID("018f0000-0000-7000-8000-000000000001")
    assert event_type_of(OrderPlacedV2).key_of(OrderPlacedV2(order_id=identity, lines=1)) == str(identity)


def test_the_key_may_be_a_function_of_the_data(catalogue: Catalogue, topic: Topic) -> None:
    @catalogue.event("a.moved", topic=topic, key=lambda data: f"{data.site}/{data.shelf}")
    class Moved(EventData):
        site: str
        shelf: int

    assert event_type_of(Moved).key_of(Moved(site="north", shelf=3)) == "north/3"


def test_a_type_without_a_key_has_none() -> None:
    assert event_type_of(OrderNoted).key_of(OrderNoted()) is None


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="must be a text that is not empty"):
        event_type_of(OrderPlaced).key_of(placed(""))


def test_a_key_field_that_is_missing_is_refused(catalogue: Catalogue, topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match=r"the field order_nr, which .* has not \(its fields: order_id\)"):

        @catalogue.event("a.placed", topic=topic, key="order_nr")
        class Placed(EventData):
            order_id: str


@each_of("annotation", [Optional[str], float, bool, Money, list[str], Any, bytes])  # noqa: UP045
def test_a_key_field_without_one_text_form_is_refused(annotation: Any, catalogue: Catalogue, topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match="no str, int or UUID"):

        @catalogue.event("a.placed", topic=topic, key="order_id")
        class Placed(EventData):
            order_id: annotation


def test_a_key_field_may_have_constraints(catalogue: Catalogue, topic: Topic) -> None:
    @catalogue.event("a.placed", topic=topic, key="order_id")
    class Placed(EventData):
        order_id: Annotated[str, Field(min_length=3)]

    assert event_type_of(Placed).key_of(Placed(order_id="abc")) == "abc"


@each_of(
    "name", ["", "order", "Order.placed", "order.", ".placed", "order..placed", "order.placed\n", "order-x.placed"]
)
def test_a_bad_type_name_is_refused(name: str, catalogue: Catalogue, topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match="no name for an event type"):
        catalogue.event(name, topic=topic, key=None)


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_below_one_is_refused(version: int, catalogue: Catalogue, topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match="versions start at 1"):
        catalogue.event("a.b", version=version, topic=topic, key=None)


def test_a_name_and_version_declared_twice_is_refused(catalogue: Catalogue, topic: Topic) -> None:
    @catalogue.event("a.b", topic=topic, key=None)
    class First(EventData):
        pass

    with pytest.raises(ConfigurationError, match=r"a.b version 1 is declared twice, by .*First and by .*Second"):

        @catalogue.event("a.b", topic=topic, key=None)
        class Second(EventData):
            pass

    assert catalogue.find("a.b", 1) is event_type_of(First)


def test_a_class_declared_twice_is_refused(catalogue: Catalogue, topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match=r"is declared twice, as order.placed version 1 and as a.b"):
        catalogue.event("a.b", topic=topic, key=None)(OrderPlaced)


def test_only_event_data_can_be_declared(catalogue: Catalogue, topic: Topic) -> None:
    class Plain(BaseModel):
        pass

    with pytest.raises(ConfigurationError, match="no subclass of EventData"):
        catalogue.event("a.b", topic=topic, key=None)(Plain)  # type: ignore[type-var]


def test_a_class_that_mentions_an_undefined_type_is_refused(catalogue: Catalogue, topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match="not defined yet"):

        @catalogue.event("a.b", topic=topic, key=None)
        class Early(EventData):
            later: "DefinedFurtherDown"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("source", ["", "a b", "/ä", "%"])
def test_a_source_that_is_no_uri_reference_is_refused(source: str) -> None:
    with pytest.raises(ConfigurationError, match="URI reference"):
        Catalogue(source=source)


def test_including_takes_over_types_and_topics(catalogue: Catalogue) -> None:
    catalogue.include(orders)
    catalogue.include(orders)
    assert catalogue.find("order.placed", 1) is event_type_of(OrderPlaced)
    assert event_type_of(OrderPlaced).source == "/orders"
    assert [topic.name for topic in catalogue.topics()] == ["order.events", "order.events.dlq"]


def test_including_a_clash_is_refused(catalogue: Catalogue) -> None:
    other = Catalogue(source="/other")
    other.topic("order.events", partitions=3)
    catalogue.include(orders)
    with pytest.raises(ConfigurationError, match="declared twice"):
        catalogue.include(other)


def test_event_data_are_frozen_and_ignore_what_they_do_not_know() -> None:
    data = OrderPlaced.model_validate({"order_id": "o-1", "total": Money(1, "EUR"), "added_later": True})
    assert not hasattr(data, "added_later")
    with pytest.raises(ValueError, match="frozen"):
        data.order_id = "o-2"  # type: ignore[misc]

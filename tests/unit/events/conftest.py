"""An empty catalogue for the tests of what can be declared, and what cannot."""

import pytest

from surefoot.events import Catalogue, Topic


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(source="/test")


@pytest.fixture
def topic(catalogue: Catalogue) -> Topic:
    return catalogue.topic("test.events")

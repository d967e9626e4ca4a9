"""What `from surefoot import …` offers, and what it costs."""

import subprocess
import sys

import pytest

import surefoot
import surefoot.consumer
import surefoot.events
import surefoot.idempotency
import surefoot.outbox
import surefoot.saga

HOMES = (surefoot.consumer, surefoot.events, surefoot.idempotency, surefoot.saga)


def test_every_name_is_the_one_of_its_package() -> None:
    assert surefoot.outbox is sys.modules["surefoot.outbox"]
    for name in set(surefoot.__all__) - {"outbox"}:
        assert getattr(surefoot, name) in [getattr(home, name, None) for home in HOMES], name


def test_there_are_few_of_them_and_all_are_listed() -> None:
    assert len(surefoot.__all__) == 16
    assert dir(surefoot) == sorted(surefoot.__all__)


def test_a_name_that_is_not_there_is_told_of() -> None:
    with pytest.raises(AttributeError, match="surefoot has no Consumers"):
        surefoot.Consumers  # type: ignore[attr-defined]  # noqa: B018 - asking for it is the test


def test_publishing_loads_neither_a_broker_nor_a_web_framework() -> None:
    program = (
        "import sys; from surefoot import Catalogue, EventData, Money, outbox; "
        "print(sorted({'aiokafka', 'fastapi', 'starlette', 'typer', 'uvicorn'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"

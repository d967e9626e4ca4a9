"""A deployment hands its settings to the command it runs, and a variable goes before them."""

import sys
from datetime import timedelta
from typing import ClassVar

import pytest
import typer
from pydantic_settings import BaseSettings, SettingsConfigDict

from consumers.settings import ShopConsumerSettings
from dlq.settings import ShopDlqSettings
from orchestrator.settings import ShopOrchestratorSettings
from outbox_publisher.settings import ShopRelaySettings
from surefoot.cli.deployment import run_deployment, settings_of


class Engine(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SUREFOOT_TESTED_", frozen=True)

    patience: int = 1
    courage: int = 2


class Own(Engine):
    patience: int = 10


class Command:
    """Keeps what it was run with."""

    ran: ClassVar[list[Engine]] = []

    @staticmethod
    def run(context: typer.Context, courage: int = 2) -> None:
        Command.ran.append(settings_of(context, Engine)(courage=courage))


@pytest.fixture(autouse=True)
def _arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    Command.ran.clear()
    monkeypatch.setattr(sys, "argv", ["deployment", "--courage", "3"])


def run(*settings: type[BaseSettings]) -> Engine:
    with pytest.raises(SystemExit) as ended:
        run_deployment(Command.run, *settings)
    assert not ended.value.code
    (ran,) = Command.ran
    return ran


def test_the_command_gets_the_deployments_own_settings_and_its_options() -> None:
    ran = run(Own)
    assert (type(ran), ran.patience, ran.courage) == (Own, 10, 3)


def test_without_settings_of_its_own_it_gets_the_engines() -> None:
    assert type(run()) is Engine
    Command.ran.clear()
    assert type(run(ShopRelaySettings)) is Engine


def test_a_variable_goes_before_the_deployments_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_TESTED_PATIENCE", "7")
    assert run(Own).patience == 7


def test_a_setting_that_cannot_be_used_is_told_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUREFOOT_TESTED_PATIENCE", "much")
    with pytest.raises(SystemExit) as ended:
        run_deployment(Command.run, Own)
    assert ended.value.code == 2
    assert "SUREFOOT_TESTED_PATIENCE cannot be used" in capsys.readouterr().err


def test_a_variable_goes_before_each_of_the_shops_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ShopRelaySettings().retention == timedelta(days=3)
    assert ShopOrchestratorSettings().history_retention == timedelta(days=365)
    assert ShopDlqSettings().retention == timedelta(days=60)
    assert ShopConsumerSettings().concurrency == 2
    monkeypatch.setenv("SUREFOOT_RELAY_RETENTION", "P7D")
    monkeypatch.setenv("SUREFOOT_ORCHESTRATOR_HISTORY_RETENTION", "P90D")
    monkeypatch.setenv("SUREFOOT_DLQ_RETENTION", "P30D")
    monkeypatch.setenv("SUREFOOT_CONSUMER_CONCURRENCY", "4")
    assert ShopRelaySettings().retention == timedelta(days=7)
    assert ShopOrchestratorSettings().history_retention == timedelta(days=90)
    assert ShopDlqSettings().retention == timedelta(days=30)
    assert ShopConsumerSettings().concurrency == 4

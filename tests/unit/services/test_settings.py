"""Where each service keeps its data: one database for all, or one of its own."""

import pytest

from services.settings import SERVICES, ServiceSettings
from surefoot.errors import ConfigurationError

SHARED, OWN = "postgresql://localhost/shared", "postgresql://localhost/own"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUREFOOT_DATABASE", raising=False)
    for service in SERVICES:
        monkeypatch.delenv(f"SUREFOOT_{service.upper()}_DATABASE", raising=False)


def test_one_database_serves_all_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_DATABASE", SHARED)
    assert {ServiceSettings().database_of(service) for service in SERVICES} == {SHARED}


def test_a_service_can_have_a_database_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_DATABASE", SHARED)
    monkeypatch.setenv("SUREFOOT_WAREHOUSE_DATABASE", OWN)
    settings = ServiceSettings()
    assert (settings.database_of("warehouse"), settings.database_of("order")) == (OWN, SHARED)


def test_a_service_without_a_database_says_which_variables_would_give_it_one() -> None:
    with pytest.raises(ConfigurationError, match=r"SUREFOOT_DATABASE .* SUREFOOT_PAYMENT_DATABASE"):
        ServiceSettings().database_of("payment")

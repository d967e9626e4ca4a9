"""docs/settings.md lists what a user may set, with its default. What was a setting once is not silently ignored."""

import re
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from services.payment.settings import ApiSettings, PaymentSettings, WebhookSettings
from services.settings import SERVICES, ServiceSettings
from surefoot.audit.settings import AccessSettings
from surefoot.cli.loading import load
from surefoot.cli.main import main
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.dlq.settings import DlqSettings
from surefoot.idempotency import IdempotencySettings
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.opening import LogSettings
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.relay.settings import RelaySettings
from surefoot.settings import INTERNAL, RETIRED

ROOT = Path(__file__).parents[2]
MODELS: tuple[type[BaseSettings], ...] = (
    *(KafkaSettings, LogSettings, RelaySettings, ConsumerSettings, OrchestratorSettings, DlqSettings),
    *(AccessSettings, IdempotencySettings, ServiceSettings, PaymentSettings, ApiSettings, WebhookSettings),
)
MOST_ROWS = 45
ROWS = re.findall(
    r"^\| `(SUREFOOT_[A-Z_<>]+)` \| ([^|]+) \|", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE
)
OF_A_SERVICE = "SUREFOOT_<SERVICE>_DATABASE"
"""One row for ten settings."""
CONSTANTS = {
    "SUREFOOT_CHECKOUT_HOLD": "services.checkout.http:HOLD",
    "SUREFOOT_CONSUMER_DRAIN_EVENTS": "surefoot.consumer_runtime.worker:DRAIN_EVENTS",
    "SUREFOOT_CONSUMER_REPLAY_WINDOW": "surefoot.consumer_runtime.housekeeping:REPLAY_WINDOW",
    "SUREFOOT_DLQ_JWKS_ASKED_AT_MOST_EVERY": "surefoot.audit.keys:ASKED_AT_MOST_EVERY",
    "SUREFOOT_DLQ_JWKS_FRESH_FOR": "surefoot.audit.keys:FRESH_FOR",
    "SUREFOOT_DLQ_JWKS_KEPT_FOR": "surefoot.audit.keys:KEPT_FOR",
    "SUREFOOT_DLQ_JWT_LEEWAY": "surefoot.audit.jwts:LEEWAY",
    "SUREFOOT_KAFKA_CLIENT_ID": "surefoot.log.kafka.aiokafka_typed:CLIENT_ID",
    "SUREFOOT_KAFKA_REPLICATION_FACTOR": "surefoot.log.kafka.client:REPLICATION_FACTOR",
    "SUREFOOT_KAFKA_TOPIC_CACHE": "surefoot.log.kafka.publisher:TOPIC_CACHE",
    "SUREFOOT_ORCHESTRATOR_CONCURRENCY": "surefoot.cli.workers:DECIDED_AT_ONCE",
    "SUREFOOT_ORCHESTRATOR_TIMER_BATCH": "surefoot.orchestrator.timers:TIMER_BATCH",
    "SUREFOOT_PAYMENT_API_CONNECTIONS": "services.payment.api.command:CONNECTIONS",
    "SUREFOOT_PAYMENT_CONNECT_WITHIN": "services.payment.http_gateway:CONNECT_WITHIN",
    "SUREFOOT_PAYMENT_WEBHOOK_TOLERANCE": "surefoot.webhooks:TOLERANCE",
    "SUREFOOT_RELAY_BATCH_BYTES": "surefoot.relay.lane:BATCH_BYTES",
    "SUREFOOT_WAREHOUSE_DAMAGED_PERCENT": "consumers.warehouse:SHARES.damaged",
    "SUREFOOT_WAREHOUSE_EXPIRY_INTERVAL": "services.warehouse.expiry:INTERVAL",
    "SUREFOOT_WAREHOUSE_REJECTED_PERCENT": "consumers.warehouse:SHARES.rejected",
}

FIELDS: dict[str, FieldInfo] = {
    f"{model.model_config.get('env_prefix', '')}{name.upper()}": field
    for model in MODELS
    for name, field in model.model_fields.items()
}


def listed() -> dict[str, str]:
    """The default of each variable, as the page has it."""
    found = dict(ROWS)
    default = found.pop(OF_A_SERVICE)
    return {**found, **{f"SUREFOOT_{service.upper()}_DATABASE": default for service in SERVICES}}


def test_every_model_is_compared_with_the_page() -> None:
    holders = [
        path
        for folder in ("surefoot", "services", "consumers", "orchestrator", "dlq", "outbox_publisher")
        for path in (ROOT / folder).rglob("*.py")
    ]
    models = {
        name for path in holders for name in re.findall(r"^class (\w+)\(BaseSettings\)", path.read_text(), re.MULTILINE)
    }
    assert models == {model.__name__ for model in MODELS}


def test_the_page_has_a_row_for_every_setting_that_is_not_internal_and_for_no_other() -> None:
    wanted = {name for name, field in FIELDS.items() if INTERNAL not in field.metadata}
    without_a_row, without_a_setting = sorted(wanted - listed().keys()), sorted(listed().keys() - wanted)
    assert (without_a_row, without_a_setting) == ([], [])


@pytest.mark.parametrize("name", sorted(listed().keys() & FIELDS.keys()))
def test_the_page_has_the_default_of_every_setting(name: str) -> None:
    shown, field = listed()[name].strip("`"), FIELDS[name]
    if shown == "none":
        assert field.default in (None, ())
    else:
        assert field.annotation is not None
        assert TypeAdapter(field.annotation).validate_python(shown) == field.default


def test_the_page_stays_short_and_names_nothing_twice() -> None:
    assert len({name for name, _ in ROWS}) == len(ROWS) <= MOST_ROWS


@pytest.mark.parametrize("name", RETIRED)
def test_what_was_a_setting_has_a_constant_in_its_place(name: str) -> None:
    constant = load(CONSTANTS[name])
    assert TypeAdapter(type(constant)).validate_python(RETIRED[name]) == constant
    assert name not in FIELDS
    assert f"`{name}`" in (ROOT / "CHANGELOG.md").read_text()


def test_a_command_says_what_has_no_effect_any_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUREFOOT_RELAY_BATCH_BYTES", "1024")
    monkeypatch.setattr(sys, "argv", ["surefoot", "relay", "--help"])
    with pytest.raises(SystemExit):
        main()
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "SUREFOOT_RELAY_BATCH_BYTES" in line)
    assert "is no setting any more: the value in force is 8388608." in said

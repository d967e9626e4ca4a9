"""`surefoot services payments`: the payments API, until stopped."""

import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import Database, LogFormatOption, required_database, run
from surefoot.cli.process import MetricsPort, check_version, serve, serve_health
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.http.listening import listening, url_of
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from services.settings import ServiceSettings
    from surefoot.telemetry.health import Health

DEFAULT_PORT = 8070
CONNECTIONS = 20
"""Database connections of one process, for keys and work."""


def payments(
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to serve at; 0 takes a free one. It is printed.")
    ] = DEFAULT_PORT,
    open_: Annotated[
        bool, typer.Option("--open", help="Let in whoever reaches it, without an API key. Only at 127.0.0.1.")
    ] = False,
    database: Database = None,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Take charges, refunds and transfers over HTTP, each once for its Idempotency-Key, until Ctrl-C.

    Who may use it is in SUREFOOT_PAYMENT_API_KEYS, what stored requests are encrypted with in
    SUREFOOT_IDEMPOTENCY_SECRETS, where the provider is in SUREFOOT_PAYMENT_PROVIDER_URL. Webhooks are taken if
    SUREFOOT_PAYMENT_WEBHOOK_SECRETS is set. Start as many as you like; each goes on with what another one left behind.
    """
    from services.settings import ServiceSettings

    set_up_logging(log_format)
    settings = ServiceSettings(database=required_database(database))
    health = serve_health(metrics_port)
    remedy = "Choose another --port or --host; 0 takes a free port."
    with listening(host, port, refusal="Payments cannot be served", remedy=remedy) as listener:
        run(_serve(settings, Served(listener, host, open_, health)))
    typer.echo("The payments API has stopped; what was under way is finished by whoever runs next.")


@dataclass(frozen=True, slots=True)
class Served:
    """Where it is served, whether to whoever comes, and whom it tells of its health."""

    listener: socket.socket
    host: str
    is_open: bool
    health: "Health | None"


async def _serve(settings: "ServiceSettings", at: Served) -> None:
    import structlog

    from services.payment.api.access import access_of
    from services.payment.api.app import Parts, PaymentsService
    from services.payment.http_gateway import HttpGateway
    from services.payment.settings import ApiSettings, WebhookSettings
    from surefoot.cli.health import watched
    from surefoot.database.address import shown_url
    from surefoot.idempotency import IdempotencySettings, Store
    from surefoot.idempotency.store.encryption import Encryption
    from surefoot.telemetry.alerts import Alerts

    log = structlog.get_logger("surefoot.payments_api")
    own, idempotency, webhooks = ApiSettings(), IdempotencySettings(), WebhookSettings()
    access = access_of(own, host=at.host, open_=at.is_open)
    Encryption(idempotency.secrets).require()
    url = await _prepared(settings)
    gateway = HttpGateway()
    store = Store(url, idempotency, pool_size=CONNECTIONS, name="surefoot payments")
    takes_webhooks = webhooks.secrets is not None
    alerts = Alerts(own.alert_webhook)
    parts = Parts(url, store, idempotency, access, gateway, webhooks if takes_webhooks else None, alerts)
    service = PaymentsService(parts, at.listener)
    log.info("payments start", database=shown_url(url), open=at.is_open, webhooks=takes_webhooks)
    typer.echo(f"Payments are taken at {url_of(at.listener)}/v1/charges (and /docs; Ctrl-C stops it)")
    sys.stdout.flush()
    try:
        await serve(watched(at.health, service, {url: DEFAULT_SCHEMA}, http=service.http))
    finally:
        await gateway.close()
        await alerts.close()
    if not service.has_started:
        raise ConfigurationError("The payments API could not be started: the log above says why.")


async def _prepared(settings: "ServiceSettings") -> str:
    """The database, with the tables in it."""
    from services.tables import create_tables

    url = settings.database_of("payment")
    if settings.database_of("ledger") != url:
        raise ConfigurationError(
            "A charge and its line on the ledger are one transaction, so both must be in one database: leave out "
            "SUREFOOT_LEDGER_DATABASE, or set it to that of the payment service."
        )
    await check_version(url, DEFAULT_SCHEMA)
    await create_tables(url, "payment")
    await create_tables(url, "ledger")
    return url

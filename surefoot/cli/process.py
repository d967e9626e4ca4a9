"""What the commands that run for long share: a process begins on a schema that fits, with its event log open; tells of
its health and its metrics; and ends cleanly by Ctrl-C or a TERM signal."""

import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.command import required_database
from surefoot.errors import ConfigurationError, SchemaOutdated

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from surefoot.log import EventLog
    from surefoot.service import Service
    from surefoot.telemetry.health import Health

MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Serve /metrics for Prometheus, /livez and /readyz on this port.",
        envvar="SUREFOOT_METRICS_PORT",
    ),
]
Host = Annotated[str, typer.Option(help="The address to serve at.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to serve at; 0 takes a free one. It is printed.")]
OTHER_ADDRESS = "Choose another --port or --host; 0 takes a free port."


@asynccontextmanager
async def prepared(url: str, kafka: str | None, schema: str) -> AsyncIterator["EventLog"]:
    """The event log, open, for a process that may begin: the schema fits, its sessions are its own, and
    the collector rests."""
    from surefoot.database.pooler import require_session

    await check_version(url, schema)
    await require_session(url)
    collect_rarely()
    async with event_log(kafka, url, schema) as log:
        yield log


async def serve(service: "Service") -> None:
    """Run a service until it ends or a signal asks it to stop."""
    stop_on_signals(service)
    await service.run()


def stop_on_signals(service: "Service") -> None:
    """From now on Ctrl-C or a TERM signal stops the service, even before it runs; a second signal ends it at once. A
    process calls it before it says that it starts: who reads that may send a signal."""
    from asyncio import get_running_loop

    loop = get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, service, loop)


def _stop(service: "Service", loop: "AbstractEventLoop") -> None:
    service.stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    signal.signal(signal.SIGINT, signal.default_int_handler)


async def check_version(url: str, schema: str) -> None:
    from surefoot.database.address import shown_url
    from surefoot.database.version import misfit, newest_version, stored_version

    found = misfit(await stored_version(url, schema=schema), newest_version())
    if found is not None:
        what, advice = found
        raise SchemaOutdated(f"The schema {schema} at {shown_url(url)} {what}. {advice}")


def collect_rarely() -> None:
    """A relay or consumer makes a million short-lived values a second and no cycles among them: at Python's default
    threshold the collector takes a third of its time (measured). What lives now lives on."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@asynccontextmanager
async def event_log(kafka: str | None, database: str | None, schema: str) -> AsyncIterator["EventLog"]:
    """The event log a command line names: Kafka if it says so, else the one in the database."""
    from surefoot.log.kafka.settings import KafkaSettings
    from surefoot.log.opening import open_log

    if kafka:
        # aiokafka logs every failed connection by itself; the command says it once, in a sentence.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        log = open_log(KafkaSettings(bootstrap_servers=kafka), database, schema)
    else:
        log = open_log(None, required_database(database), schema)
    try:
        yield log
    finally:
        await log.close()


async def require_topics(log: "EventLog", names: Iterable[str], needed_by: str) -> None:
    """`needed_by` ends the clause, as in "the sagas need"."""
    wanted = list(names)
    missing = sorted(set(wanted) - set(await log.describe(wanted)))
    if missing:
        raise ConfigurationError(
            f"The log has no topic {', '.join(missing)}, which {needed_by}. Run: surefoot topics create"
        )


def serve_health(port: int | None) -> "Health | None":
    """From now on metrics and health can be asked for at this port; give what comes back to `watched`. None: nobody
    wants them."""
    if port is None:
        return None
    from surefoot.telemetry import health_server
    from surefoot.telemetry.health import Health

    health = Health()
    try:
        health_server.serve_health(health, port)
    except OSError as error:
        raise ConfigurationError(
            f"Metrics cannot be served on port {port}: {error}. Choose another --metrics-port."
        ) from error
    return health


def places(url: str, kafka: str | None) -> dict[str, str]:
    """Where the database and the log of a process are, for the line with which it starts."""
    from surefoot.database.address import shown_url

    return {"database": shown_url(url), "log": kafka or "the Postgres log of this database"}


def announce(sentence: str) -> None:
    """Printed at once: a program that started this one waits for it."""
    typer.echo(sentence)
    sys.stdout.flush()

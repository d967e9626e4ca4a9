"""`surefoot statistics`: count what goes over the topics and serve it over HTTP, until stopped."""

import importlib.util
import logging
import socket
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.statistics import KEPT
from surefoot.cli.command import Catalogues, LogFormatOption, run
from surefoot.cli.loading import load_catalogue
from surefoot.cli.process import serve
from surefoot.errors import ConfigurationError
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.log.kafka.settings import KafkaSettings

_MINUTES = int(KEPT.total_seconds() // 60)


def statistics(
    kafka: Annotated[
        str | None,
        typer.Option(
            envvar="SUREFOOT_KAFKA",
            help="Kafka brokers as host:9092[,host:9092]. TLS and SASL are set by SUREFOOT_KAFKA_SECURITY_PROTOCOL, "
            "SUREFOOT_KAFKA_SASL_MECHANISM and so on.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            help="A topic to count, may be given more than once. Without it: every topic of the catalogues, and their "
            "dead-letter topics.",
            show_default=False,
        ),
    ] = None,
    catalogue: Catalogues = None,
    host: Annotated[str, typer.Option(help="The address to serve at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to serve at.")] = 6066,
    history: Annotated[
        int, typer.Option(min=0, max=_MINUTES, help="How many minutes to count again at the start; 0 for none.")
    ] = _MINUTES,
    group: Annotated[
        str | None,
        typer.Option(help="Its consumer group, its alone. By default made of host name and port.", show_default=False),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="A directory for Faust, which keeps little in it. By default temporary.", show_default=False),
    ] = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Count events, dead letters and saga outcomes by the minute, and serve the last hour as JSON, until Ctrl-C.

    GET /statistics/events, /statistics/dead-letters, /statistics/dead-letter-reasons, /statistics/sagas,
    /statistics/health. It only counts: it needs no database, changes nothing, and may be stopped at any time. Needs
    Kafka and the extra surefoot[faust].
    """
    from surefoot.log.kafka.settings import KafkaSettings

    set_up_logging(log_format)
    if importlib.util.find_spec("faust") is None:
        raise ConfigurationError("The statistics run on Faust, which is not installed here: install surefoot[faust].")
    if not kafka:
        raise ConfigurationError(
            "No Kafka was given, and the statistics are counted from Kafka alone. Say --kafka host:9092, or set "
            "SUREFOOT_KAFKA."
        )
    settings = KafkaSettings(bootstrap_servers=kafka)
    topics = list(dict.fromkeys(topic or [each.name for each in load_catalogue(catalogue or []).topics()]))
    _check_port(host, port)
    group = group or f"surefoot-statistics-{socket.gethostname()}-{port}"
    with tempfile.TemporaryDirectory(prefix="surefoot-statistics-") as temporary:
        place = (host, port, data_dir or Path(temporary))
        run(_statistics(settings, group, topics, timedelta(minutes=history), place))


async def _statistics(
    settings: "KafkaSettings", group: str, topics: Sequence[str], history: timedelta, place: tuple[str, int, Path]
) -> None:
    import structlog

    from consumers.statistics.starting_point import go_back
    from consumers.statistics.worker import Place, StatisticsWorker

    log = structlog.get_logger("surefoot.statistics")
    _let_faust_speak()
    start = await go_back(settings, group, topics, history)
    where = Place(*place)
    log.info("statistics start", url=f"http://{where.host}:{where.port}/statistics/events", group=group, topics=topics)
    await serve(StatisticsWorker(settings, group, topics, start, where))
    log.info("statistics stopped")


def _check_port(host: str, port: int) -> None:
    """Before Faust does, which would go down with a traceback."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise ConfigurationError(
            f"The statistics cannot be served at {host}:{port}: {error}. Choose another --port or --host."
        ) from error


class _AsOurs(logging.Handler):
    """What Faust logs, as log lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        import structlog

        structlog.get_logger("surefoot.statistics").error("Faust reports an error", said=record.getMessage())


def _let_faust_speak() -> None:
    for name in ("faust", "mode", "aiohttp"):
        faust_log = logging.getLogger(name)
        faust_log.setLevel(logging.ERROR)
        faust_log.addHandler(_AsOurs())
        faust_log.propagate = False

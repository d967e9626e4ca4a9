"""`surefoot relay`, `surefoot consume` and `surefoot orchestrate`: the processes that move events, until stopped."""

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from surefoot.cli.command import Database, Kafka, LogFormatOption, Schema, required_database, run
from surefoot.cli.deployment import settings_of
from surefoot.cli.loading import load, load_sagas
from surefoot.cli.process import MetricsPort, places, prepared, require_topics, serve_health, stop_on_signals
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError, words_of
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.consumer import Consumer
    from surefoot.consumer_runtime.partitions import From
    from surefoot.consumer_runtime.settings import ConsumerSettings
    from surefoot.log.port import EventLog
    from surefoot.orchestrator.settings import OrchestratorSettings
    from surefoot.relay.settings import RelaySettings
    from surefoot.saga import Saga
    from surefoot.telemetry.health import Health

EXIT_STUCK = 2
DECIDED_AT_ONCE = 1
"""Batches of an orchestrator. They wait for the same sagas and for nothing outside: one after the other they get larger
and cost less."""


def relay(
    context: typer.Context,
    database: Database = None,
    kafka: Kafka = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Publish committed outbox events, in order per key, until Ctrl-C.

    Start as many as you like, on as many hosts as you like: they share the shards among themselves and take over from
    one that dies. Everything else is set by the environment: SUREFOOT_RELAY_LEASE, SUREFOOT_RELAY_LANES,
    SUREFOOT_RELAY_ALERT_WEBHOOK … (docs/settings.md lists them).
    """
    from surefoot.relay.settings import RelaySettings

    set_up_logging(log_format)
    url = required_database(database)
    settings = settings_of(context, RelaySettings)(db_schema=schema)
    run(_relay(url, kafka, settings, serve_health(metrics_port)))


async def _relay(url: str, kafka: str | None, settings: "RelaySettings", health: "Health | None") -> None:
    import structlog

    from surefoot.cli.health import watched
    from surefoot.relay.runtime import PROBE, Relay

    log = structlog.get_logger("surefoot.relay")
    async with prepared(url, kafka, settings.db_schema) as event_log:
        service = Relay(url, event_log, settings)
        whole = watched(health, service, {url: settings.db_schema}, log=lambda: event_log.describe([PROBE]))
        stop_on_signals(whole)
        log.info("relay starts", name=service.name, **places(url, kafka))
        await whole.run()
    log.info("relay stopped; its shards are free for others", name=service.name)


def consume(
    consumer: Annotated[
        str, typer.Argument(help="The Consumer to run, as package.module:name.", show_default=False, metavar="CONSUMER")
    ],
    database: Database = None,
    kafka: Kafka = None,
    schema: Schema = DEFAULT_SCHEMA,
    once: Annotated[
        bool, typer.Option("--once", help="Work off what is in the topics now, showing each event, then end.")
    ] = False,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Where to begin this time: `start`, `end` (if it never ran), or TOPIC/PARTITION:OFFSET. What "
            "was handled before is not handled twice. Without it: where it stopped.",
            show_default=False,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for each event.")] = False,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Run a consumer until Ctrl-C: each event has its effect once, in order per key, in your database.

    Start as many as you like: the log shares the partitions among them and moves them when one dies. An event that
    fails waits with its key and is tried again; out of attempts, it goes to the topic's `.dlq`. Everything else is set
    by the environment: SUREFOOT_CONSUMER_BATCH_RECORDS, SUREFOOT_CONSUMER_HANDLER_TIMEOUT … (docs/settings.md).
    """
    from surefoot.consumer import Consumer
    from surefoot.consumer_runtime.partitions import parse_from
    from surefoot.consumer_runtime.settings import ConsumerSettings

    set_up_logging(log_format, level=logging.DEBUG if once or verbose else logging.INFO)
    url = required_database(database)
    settings = ConsumerSettings(db_schema=schema)
    found = load(consumer)
    if not isinstance(found, Consumer):
        raise ConfigurationError(
            f"{consumer} is a {type(found).__name__} and no Consumer: name the object that handlers are declared with."
        )
    health = serve_health(metrics_port)
    begins = None if begin is None else parse_from(begin)
    run(_consume(found, url, kafka, settings, health, once=once, begin=begins))


async def _consume(
    consumer: "Consumer",
    url: str,
    kafka: str | None,
    settings: "ConsumerSettings",
    health: "Health | None",
    *,
    once: bool,
    begin: "From | None",
) -> None:
    import structlog

    from surefoot.cli.health import watched
    from surefoot.consumer_runtime.runtime import ConsumerRuntime

    log = structlog.get_logger("surefoot.consumer")
    async with prepared(url, kafka, settings.db_schema) as event_log:
        await _check_topics(consumer, event_log)
        await _check_begin(consumer, event_log, begin)
        service = ConsumerRuntime(consumer, url, event_log, settings, begin=begin, once=once)
        topics = [topic.name for topic in consumer.topics]
        whole = watched(health, service, {url: settings.db_schema}, log=lambda: event_log.describe(topics))
        stop_on_signals(whole)
        log.info("consumer starts", name=service.name, topics=topics, **places(url, kafka))
        try:
            await whole.run()
        except Exception as error:
            if service.partitions.stuck:
                log.error("consumer ends at once, without waiting for its handlers", error=words_of(error))
                _end_now()
            raise
    log.info("consumer stopped; its partitions are free for others", name=service.name)


def _end_now() -> NoReturn:
    """A handler that swallows its cancellation would keep the event loop from ever being closed."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_STUCK)


async def _check_topics(consumer: "Consumer", event_log: "EventLog") -> None:
    """A consumer without a dead-letter topic would fill the outbox with letters that cannot be delivered."""
    from surefoot.consumer.contracts import saga_replies
    from surefoot.consumer.handlers import is_for_commands

    wanted = _topics_of(consumer)
    if any(is_for_commands(handler) for handler in consumer.handlers):
        wanted.append(saga_replies.name)  # a command that dies says so there
    await require_topics(event_log, wanted, f"{consumer.name} needs")


def _topics_of(consumer: "Consumer") -> list[str]:
    return [name for topic in consumer.topics for name in (topic.name, topic.dead_letters.name)]


async def _check_begin(consumer: "Consumer", event_log: "EventLog", begin: "From | None") -> None:
    if begin is None or begin.where is None:
        return
    topic, partition = begin.where
    if topic not in [one.name for one in consumer.topics]:
        raise ConfigurationError(
            f"--from names the topic {topic}, which {consumer.name} does not read: it reads "
            f"{', '.join(one.name for one in consumer.topics)}."
        )
    if begin.where not in await event_log.end_offsets(topic):
        raise ConfigurationError(f"--from names the partition {topic}/{partition}, and the topic has no such one.")


def orchestrate(
    context: typer.Context,
    sagas: Annotated[
        list[str] | None,
        typer.Argument(
            help="The sagas to run, each as package.module:name; a name may be a list of them. Every version that has "
            "sagas under way has to be among them. Without any: those of the project file.",
            show_default=False,
            metavar="SAGA…",
        ),
    ] = None,
    database: Database = None,
    kafka: Kafka = None,
    schema: Schema = DEFAULT_SCHEMA,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = "text",
) -> None:
    """Run sagas until Ctrl-C: each begins on its start event, commands services, and ends: done, undone, or stuck in
    front of an operator.

    Start as many as you like; they share the work. Look with `surefoot saga list`, act with `surefoot saga retry`. How
    it runs is set by the environment: SUREFOOT_ORCHESTRATOR_NAME, SUREFOOT_CONSUMER_BATCH_RECORDS …
    """
    from surefoot.consumer_runtime.settings import ConsumerSettings
    from surefoot.orchestrator.settings import OrchestratorSettings

    set_up_logging(log_format)
    url = required_database(database)
    settings = settings_of(context, OrchestratorSettings)(db_schema=schema)
    reading = settings_of(context, ConsumerSettings)(db_schema=schema, concurrency=DECIDED_AT_ONCE)
    found = load_sagas(sagas)
    run(_orchestrate(found, url, kafka, settings, reading, serve_health(metrics_port)))


async def _orchestrate(
    sagas: "list[Saga]",
    url: str,
    kafka: str | None,
    settings: "OrchestratorSettings",
    reading: "ConsumerSettings",
    health: "Health | None",
) -> None:
    import structlog

    from surefoot.cli.health import watched
    from surefoot.orchestrator.runtime import OrchestratorRuntime

    log = structlog.get_logger("surefoot.orchestrator")
    async with prepared(url, kafka, settings.db_schema) as event_log:
        service = OrchestratorRuntime(sagas, url, event_log, settings, reading)
        topics = _topics_of(service.consumer)
        await require_topics(event_log, topics, "the sagas need")
        names = [f"{name} v{version}" for name, version in service.registry.definitions]
        whole = watched(health, service, {url: settings.db_schema}, log=lambda: event_log.describe(topics))
        stop_on_signals(whole)
        log.info("orchestrator starts", name=service.name, sagas=names, **places(url, kafka))
        await whole.run()
    log.info("orchestrator stopped; others go on with its sagas", name=service.name)

"""`surefoot consume`: run a consumer, until stopped or until it has worked off what is there."""

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from surefoot.cli.event_log import event_log
from surefoot.cli.loading import load
from surefoot.cli.options import Database, Kafka, LogFormatOption, Schema, required_database
from surefoot.cli.process import MetricsPort, check_version, collect_rarely, serve_metrics
from surefoot.cli.running import run, serve
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError, words_of
from surefoot.telemetry.logging import set_up_logging

if TYPE_CHECKING:
    from surefoot.consumer import Consumer
    from surefoot.consumer_runtime.positions import From
    from surefoot.consumer_runtime.settings import ConsumerSettings
    from surefoot.log.port import EventLog

EXIT_STUCK = 2


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
    by the environment: SUREFOOT_CONSUMER_BATCH_RECORDS, SUREFOOT_CONSUMER_HANDLER_TIMEOUT … (docs/consumers.md).
    """
    from surefoot.consumer import Consumer
    from surefoot.consumer_runtime.positions import parse_from
    from surefoot.consumer_runtime.settings import ConsumerSettings

    set_up_logging(log_format, level=logging.DEBUG if once or verbose else logging.INFO)
    url = required_database(database)
    settings = ConsumerSettings(db_schema=schema)
    found = load(consumer)
    if not isinstance(found, Consumer):
        raise ConfigurationError(
            f"{consumer} is a {type(found).__name__} and no Consumer: name the object that handlers are declared with."
        )
    if metrics_port is not None:
        serve_metrics(metrics_port)
    run(_consume(found, url, kafka, settings, once=once, begin=None if begin is None else parse_from(begin)))


async def _consume(
    consumer: "Consumer", url: str, kafka: str | None, settings: "ConsumerSettings", *, once: bool, begin: "From | None"
) -> None:
    import structlog

    from surefoot.consumer_runtime.runtime import ConsumerRuntime
    from surefoot.database.connection import shown_url

    log = structlog.get_logger("surefoot.consumer")
    await check_version(url, settings.db_schema)
    collect_rarely()
    async with event_log(kafka, url, settings.db_schema) as its_log:
        await _check_topics(consumer, its_log)
        await _check_begin(consumer, its_log, begin)
        service = ConsumerRuntime(consumer, url, its_log, settings, begin=begin, once=once)
        where = kafka or "the Postgres log of this database"
        topics = [topic.name for topic in consumer.topics]
        log.info("consumer starts", name=service.name, topics=topics, database=shown_url(url), log=where)
        try:
            await serve(service)
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

    wanted = [name for topic in consumer.topics for name in (topic.name, topic.dead_letters.name)]
    if any(is_for_commands(handler) for handler in consumer.handlers):
        wanted.append(saga_replies.name)  # a command that dies says so there
    missing = sorted(set(wanted) - set(await event_log.describe(wanted)))
    if missing:
        raise ConfigurationError(
            f"The log has no topic {', '.join(missing)}, which {consumer.name} needs. Run: surefoot topics create"
        )


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

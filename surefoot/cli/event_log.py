"""The event log a command line names: Kafka if it says so, else the one in the database."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from surefoot.cli.options import required_database

if TYPE_CHECKING:
    from surefoot.log import EventLog


@asynccontextmanager
async def event_log(kafka: str | None, database: str | None, schema: str) -> AsyncIterator["EventLog"]:
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

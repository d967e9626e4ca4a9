"""Writes two records to the topic `things` of the Postgres log, one after the other, and prints how it goes:
`python -m tests.support.event_log.writer_process URL`.
"""

import asyncio
import sys
from datetime import timedelta

from surefoot.errors import LogUnavailable
from surefoot.log.port import Record, TopicPartition
from surefoot.log.postgres import line as postgres_line
from surefoot.log.postgres.log import PostgresLog

postgres_line.TRANSACTION_TIMEOUT = timedelta(seconds=2)  # the server ends the transaction of a frozen writer so soon


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


async def main(url: str) -> None:
    log = PostgresLog(url)
    publisher = await log.publisher()
    left = [b"0", b"1"]
    while left:
        try:
            await publisher.publish(TopicPartition("things", 0), [Record(b"k", left[0], [])])
        except LogUnavailable:
            say("away")
        else:
            say("stored")
            del left[0]
    await publisher.close()
    await log.close()


asyncio.run(main(sys.argv[1]))

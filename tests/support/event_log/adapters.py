"""Opening either adapter by name: also for processes of their own, which are given nothing but words."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple, cast

import asyncpg
from aiokafka.admin import RecordsToDelete

from surefoot.log.kafka.aiokafka_typed import kafka_partition, new_admin
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import EventLog, TopicPartition
from surefoot.log.postgres.log import PostgresLog

Forget = Callable[[TopicPartition, int], Awaitable[None]]
"""Remove a partition's records before an offset, as retention does."""

LEASE = timedelta(seconds=3)
"""A member that is silent for this long loses its partitions."""


class Adapter(NamedTuple):
    name: str
    address: str

    def open(self, lease: timedelta = LEASE, patience: timedelta = timedelta(minutes=5)) -> EventLog:
        """`patience`: how long Kafka waits for a member that lives, but does not poll. (The Postgres log has none.)"""
        if self.name == "kafka":
            settings = KafkaSettings(bootstrap_servers=self.address, session_timeout=lease, max_poll_interval=patience)
            return KafkaLog(settings)
        return PostgresLog(self.address, lease=lease)


async def forget_in_kafka(address: str, where: TopicPartition, before: int) -> None:
    admin = new_admin(KafkaSettings(bootstrap_servers=address))
    await admin.start()
    try:
        await cast(Any, admin).delete_records({kafka_partition(*where): RecordsToDelete(before_offset=before)})
    finally:
        await admin.close()


async def forget_in_postgres(log: EventLog, url: str, where: TopicPartition, before: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "UPDATE surefoot.log_records SET stored_at = '-infinity'"
            " WHERE topic = $1 AND partition = $2 AND log_offset < $3",
            where.topic,
            where.partition,
            before,
        )
    finally:
        await connection.close()
    await log.expire()

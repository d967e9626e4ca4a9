"""Whether a broker is ready: it answers a metadata request and names a broker. An open port is not enough."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from surefoot.log.kafka.aiokafka_typed import KafkaError, new_admin
from surefoot.log.kafka.settings import KafkaSettings

PROBE_TIMEOUT = timedelta(seconds=2)


def answers(address: str) -> bool:
    """Ask once, briefly. May be called from within a running event loop too (it then blocks that loop)."""
    if not _port_is_open(address):
        return False  # aiokafka would log an error for each try
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, _metadata(address)).result()


async def _metadata(address: str) -> bool:
    settings = KafkaSettings(bootstrap_servers=address, request_timeout=PROBE_TIMEOUT)
    admin = new_admin(settings)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT.total_seconds()):
            await admin.start()
            return bool((await admin.describe_cluster())["brokers"])
    except (KafkaError, OSError):  # TimeoutError is an OSError
        return False
    finally:
        await admin.close()


def _port_is_open(address: str) -> bool:
    host, _, port = address.split(",")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT.total_seconds()):
            return True
    except OSError:
        return False

"""aiokafka leaves its first connection open when its start is cancelled. We close it."""

import asyncio
import gc
import struct
from datetime import timedelta

import pytest

from surefoot.errors import LogUnavailable
from surefoot.log.kafka.client import KafkaClient
from surefoot.log.kafka.settings import KafkaSettings

API_VERSIONS, METADATA = 18, 3


class SilentBroker:
    """Tells its versions, and answers no other question."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            request = await reader.readexactly(int.from_bytes(size))
            question, _, correlation_id = struct.unpack(">hhi", request[:8])
            self.asked.append(question)
            if question == API_VERSIONS:
                answer = struct.pack(">ihihhh", correlation_id, 0, 1, METADATA, 0, 5)
                writer.write(struct.pack(">i", len(answer)) + answer)
        self.left.set()
        writer.close()


async def test_a_client_that_gives_up_on_a_silent_broker_closes_its_connection() -> None:
    broker = SilentBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = KafkaClient(
        KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", request_timeout=timedelta(milliseconds=300))
    )
    gc.disable()  # the collector would close it, too, some time later
    try:
        with pytest.raises(LogUnavailable):
            await client.names()
        assert broker.asked == [API_VERSIONS, METADATA]
        async with asyncio.timeout(5):
            await broker.left.wait()
    finally:
        gc.enable()
        server.close()
        await server.wait_closed()

"""The services of the saga bench, all four consumers in one process: `python -m bench.saga_services URL [KAFKA]`."""

import asyncio
import signal
import sys

import uvloop

from bench.saga_shop import CONSUMERS
from surefoot.cli.process import collect_rarely, event_log
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.telemetry.logging import set_up_logging


async def main(url: str, kafka: str | None) -> None:
    set_up_logging("text")
    collect_rarely()
    async with event_log(kafka, url, "surefoot") as log:
        runtimes = [ConsumerRuntime(consumer, url, log, ConsumerSettings()) for consumer in CONSUMERS]
        loop = asyncio.get_running_loop()

        def stop() -> None:
            for runtime in runtimes:
                runtime.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        await asyncio.gather(*(runtime.run() for runtime in runtimes))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))

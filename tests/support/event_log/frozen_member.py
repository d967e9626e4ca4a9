"""A member of a group in a process of its own, to be frozen: `python -m tests.support.event_log.frozen_member …`.

Says when it owns all four partitions, waits for SIGUSR1, commits for all of them, and says how that went.
"""

import asyncio
import signal
import sys

from surefoot.errors import LeaseLost
from surefoot.log.port import TopicPartition
from tests.support.event_log.adapters import Adapter
from tests.support.event_log.members import member, shares

OWNS_ALL, STORED, LOST = "owns all", "stored", "lease lost"


async def main(name: str, address: str, group: str, topic: str) -> None:
    log = Adapter(name, address).open()
    async with member(log, group, topic) as one:
        await shares([one], [4])
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, told.set)
        print(OWNS_ALL, flush=True)  # noqa: T201
        await told.wait()
        try:
            await one.joined.commit({TopicPartition(topic, partition): 1 for partition in range(4)})
        except LeaseLost:
            print(LOST, flush=True)  # noqa: T201
        else:
            print(STORED, flush=True)  # noqa: T201
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

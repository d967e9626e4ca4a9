"""What a member that was frozen past its lease can no longer do, on every event log: one suite, real processes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from subprocess import PIPE

import pytest

from surefoot.log.port import EventLog, TopicPartition
from tests.support.event_log.adapters import Adapter
from tests.support.event_log.frozen_member import LOST, OWNS_ALL, STORED
from tests.support.event_log.members import member, shares
from tests.support.processes import AsyncChild, end, start_async


@asynccontextmanager
async def owner_of_all(adapter: Adapter, group: str, topic: str) -> AsyncIterator[AsyncChild]:
    process = await start_async(["tests.support.event_log.frozen_member", *adapter, group, topic], stdout=PIPE)
    try:
        assert await said(process) == OWNS_ALL
        yield process
    finally:
        await end(process)


async def said(process: AsyncChild) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().strip()


async def told_to_commit(process: AsyncChild) -> str:
    process.send_signal(signal.SIGUSR1)
    return await said(process)


async def test_an_owner_that_was_never_frozen_stores_its_offsets(adapter: Adapter, topic: str) -> None:
    async with owner_of_all(adapter, f"{topic}.group", topic) as owner:
        assert await told_to_commit(owner) == STORED


@pytest.mark.slow
async def test_a_frozen_owner_that_wakes_up_replaced_stores_nothing(
    adapter: Adapter, event_log: EventLog, topic: str
) -> None:
    group = f"{topic}.group"
    everywhere = [TopicPartition(topic, partition) for partition in range(4)]
    async with owner_of_all(adapter, group, topic) as frozen:
        os.kill(frozen.pid, signal.SIGSTOP)
        async with member(event_log, group, topic) as heir:
            await shares([heir], [4])
            await heir.joined.commit(dict.fromkeys(everywhere, 2))
            os.kill(frozen.pid, signal.SIGCONT)

            assert await told_to_commit(frozen) == LOST

            assert [await heir.joined.committed(where) for where in everywhere] == [2, 2, 2, 2]

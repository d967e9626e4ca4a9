"""The expiry of holds, stopped by an event of the test's."""

import asyncio

from services.warehouse.expiry import Expiry


async def keep_expiring(url: str, stopping: asyncio.Event) -> None:
    expiry = Expiry(url)
    expiry.stopping = stopping
    await expiry.run()

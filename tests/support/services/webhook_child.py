"""Takes one webhook, and is killed on the way: `python -m tests.support.services.webhook_child URL`."""

import asyncio
import sys

from tests.support.services.webhook_harness import event, webhook_client


async def main(url: str) -> None:
    async with webhook_client(url) as ground:
        await ground.post(event("captured"))


asyncio.run(main(sys.argv[1]))

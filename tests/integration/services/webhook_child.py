"""Takes one webhook, and is killed on the way: `python -m tests.integration.services.webhook_child URL`."""

import asyncio
import sys

from tests.integration.services.webhook_ground import event, webhook_client


async def main(url: str) -> None:
    async with webhook_client(url) as ground:
        await ground.post(event("captured"))


asyncio.run(main(sys.argv[1]))

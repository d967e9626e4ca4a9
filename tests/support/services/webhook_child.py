"""Takes one webhook, is killed or frozen on the way, and prints what it answered:
`python -m tests.support.services.webhook_child URL`.
"""

import asyncio
import sys

from sqlalchemy import text

from services.payment import webhooks
from tests.support.services.webhook_harness import event, webhook_client


async def main(url: str) -> None:
    async with webhook_client(url) as ground:
        answer = await ground.post(event("captured"))
    said = answer.json()
    sys.stdout.write(f"{answer.status_code} {said.get('outcome') or said['reason']}\n")


limits = str(webhooks._LIMITS).replace("'10s'", "'1s'")  # the server ends the transaction of a frozen process so soon
assert limits != str(webhooks._LIMITS)
webhooks._LIMITS = text(limits)
asyncio.run(main(sys.argv[1]))

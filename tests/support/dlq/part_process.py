"""One part of the dead-letter service as a process of its own, that can be killed and frozen:
`python -m tests.support.dlq.part_process intake <database>`.
"""

import asyncio
import sys
from datetime import timedelta

from surefoot.cli.process import serve
from surefoot.dlq.intake.intake import Intake
from surefoot.dlq.jobs.outcomes import Outcomes
from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq.service import quick

PARTS: dict[str, type[Intake] | type[Outcomes]] = {"intake": Intake, "outcomes": Outcomes}


async def main(part: str, url: str) -> None:
    log = PostgresLog(url, lease=timedelta(seconds=2))
    try:
        await serve(PARTS[part](url, log, quick(poll_records=20)))
    finally:
        await log.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

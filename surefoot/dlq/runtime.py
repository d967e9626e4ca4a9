"""The dead-letter service without its HTTP side: letters come in, decisions go out, answers come back, and the house is
kept. Start as many as you like: each part shares its work with its like in other processes.
"""

from surefoot.dlq.intake.intake import Intake
from surefoot.dlq.jobs.outcomes import Outcomes
from surefoot.dlq.jobs.sender import Sender
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep.alerts import alerts_of
from surefoot.dlq.upkeep.housekeeping import Housekeeping
from surefoot.log.port import EventLog
from surefoot.service import Together


class DlqRuntime(Together):
    def __init__(self, url: str, event_log: EventLog, settings: DlqSettings) -> None:
        self._alerts = alerts_of(settings)
        super().__init__(
            Intake(url, event_log, settings),
            Outcomes(url, event_log, settings),
            Sender(url, event_log, settings),
            Housekeeping(url, settings, self._alerts),
        )

    async def run(self) -> None:
        """Until stopped. If one part fails for good, all of it ends, and says why."""
        try:
            await super().run()
        finally:
            await self._alerts.close()

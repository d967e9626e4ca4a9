"""Beside the work: approvals that nobody gave end, somebody is told of what is new or too much, what is old goes, and
once a week a report is written.

Every service does it; what must happen once is settled in the database.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

import structlog

from surefoot.database.connection import Connection, connect
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.metrics import OUTAGES
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep.alerts import DlqAlerts
from surefoot.dlq.upkeep.report import last_week, report, report_path, write_report
from surefoot.dlq.upkeep.retention import Retention
from surefoot.service import DatabaseService, Outage
from surefoot.telemetry.alerts import Alert, Alerts
from surefoot.telemetry.health import Finding

log = structlog.get_logger("surefoot.dlq")
STATEMENT_TIMEOUT = timedelta(minutes=5)
LOCK_TIMEOUT = timedelta(seconds=10)


class Housekeeping(DatabaseService):
    def __init__(self, url: str, settings: DlqSettings, alerts: Alerts) -> None:
        connecting = partial(
            connect,
            url,
            name="surefoot dlq housekeeping",
            command_timeout=STATEMENT_TIMEOUT,
            lock_timeout=LOCK_TIMEOUT,
            # Not the time of a whole transaction: one that removes old letters may work for longer.
            idle_transaction_timeout=settings.transaction_timeout,
        )
        outage = Outage(
            "the database of the dead letters' housekeeping",
            OUTAGES.labels("housekeeping", "database"),
            shortest=timedelta(seconds=1),
            longest=timedelta(seconds=30),
        )
        super().__init__("housekeeping", url, connecting, outage)
        self._settings = settings
        self._alerts = alerts
        self._telling = DlqAlerts(settings.db_schema, settings, alerts)
        self._retention = Retention(settings, alerts, self.stopping)

    def readiness(self) -> Iterable[Finding]:
        """Nothing: it rests for so long after a failure that others know better."""
        return []

    async def round(self) -> timedelta:
        try:
            await self.once(await self.connected())
        finally:
            await self.close()
        self.database_away.over()
        return self._settings.housekeeping

    async def once(self, connection: Connection) -> int:
        """One round; how many dead letters were removed."""
        schema = self._settings.db_schema
        async with connection.transaction():
            await Approvals(connection, schema, self._settings).expire()
        await self._telling.tell(connection)
        removed = await self._retention.keep(connection)
        if removed:
            log.info("removed dead letters past their retention", letters=removed)
        await self._report(connection)
        return removed

    async def _report(self, connection: Connection) -> None:
        """Of the last whole week, by the database's clock, unless it is there."""
        directory = self._settings.report_directory
        if directory is None:
            return
        now: datetime = await connection.fetchval("SELECT now()")
        since, until = last_week(now)
        path = report_path(directory, since)
        if await asyncio.to_thread(path.exists):
            return
        text = await report(connection, self._settings.db_schema, since=since, until=until)
        try:
            await asyncio.to_thread(write_report, path, text)
        except OSError as error:
            sentence = f"The weekly report on dead letters cannot be written to {path}: {error.strerror or error}."
            await self._alerts.raise_alert(Alert("report_not_written", sentence, {"path": str(path)}))
        else:
            log.info("wrote the weekly report on dead letters", path=str(path))

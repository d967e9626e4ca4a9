"""Beside the work: what is old goes, in small batches; what is open is counted; of what is stuck somebody is told."""

from datetime import timedelta

import structlog

from surefoot.database.connection import Connection, close_quietly, connect, is_outage
from surefoot.errors import words_of
from surefoot.orchestrator.metrics import OLDEST, OPEN
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.service import LoopService
from surefoot.telemetry.alerts import Alert, Alerts

log = structlog.get_logger("surefoot.orchestrator")
BATCH = 1000
MOST_TOLD = 100
"""Stuck sagas told of one by one in a round."""


class Housekeeping(LoopService):
    def __init__(self, url: str, settings: OrchestratorSettings) -> None:
        super().__init__("housekeeping")
        self._url = url
        self._settings = settings
        self._alerts = Alerts(settings.alert_webhook)
        self._told: frozenset[str] = frozenset()
        """Stuck sagas that somebody was told of."""
        schema = settings.db_schema
        self._count = f"""
            SELECT saga_type, status::text, count(*) FROM {schema}.saga_instances
            WHERE ended_at IS NULL GROUP BY 1, 2"""
        self._oldest = f"""
            SELECT coalesce(extract(epoch FROM now() - min(updated_at)), 0)::float8 FROM {schema}.saga_instances
            WHERE status = 'STUCK' AND ended_at IS NULL"""
        self._stuck = f"""
            SELECT saga_id::text, saga_type, entity_id, current_step, current_direction, reason
            FROM {schema}.saga_instances WHERE status = 'STUCK' AND ended_at IS NULL
            ORDER BY updated_at"""
        # The history goes with its saga, in one statement: nobody finds one without the other.
        self._expire = f"""
            WITH old AS (
                SELECT saga_id FROM {schema}.saga_instances WHERE ended_at < now() - $1::interval LIMIT {BATCH}
                FOR UPDATE SKIP LOCKED),
            lines AS (DELETE FROM {schema}.saga_history h USING old WHERE h.saga_id = old.saga_id)
            DELETE FROM {schema}.saga_instances s USING old WHERE s.saga_id = old.saga_id"""

    async def round(self) -> timedelta:
        try:
            connection = await connect(
                self._url, name="surefoot saga housekeeping", command_timeout=timedelta(seconds=60)
            )
            try:
                await self.once(connection)
            finally:
                await close_quietly(connection)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("sagas could not be looked after; tried again later", error=words_of(error))
        return self._settings.housekeeping

    async def close(self) -> None:
        await self._alerts.close()

    async def _tell_of_stuck(self, connection: Connection) -> None:
        """Once for each time that one gets stuck; by every orchestrator, and again when one is started."""
        found = {row[0]: row for row in await connection.fetch(self._stuck)}
        new = [saga_id for saga_id in found if saga_id not in self._told]
        if len(new) > MOST_TOLD:
            sentence = f"{len(new) - MOST_TOLD} more sagas are STUCK: surefoot saga list --status STUCK."
            await self._alerts.raise_alert(Alert("saga_stuck", sentence))
        for saga_id in new[:MOST_TOLD]:
            row = found[saga_id]
            saga_type, entity_id, step, direction, reason = (row[n] for n in range(1, 6))
            sentence = f"A saga is STUCK and waits for a person: surefoot saga show {saga_id}. {reason or ''}".strip()
            details = {"saga_id": saga_id, "saga": saga_type, "entity": entity_id, "step": f"{direction} {step}"}
            await self._alerts.raise_alert(Alert("saga_stuck", sentence, details))
        self._told = frozenset(found)

    async def once(self, connection: Connection) -> int:
        """How many sagas were removed."""
        OPEN.clear()
        for row in await connection.fetch(self._count):
            OPEN.labels(row[0], row[1]).set(row[2])
        OLDEST.set(await connection.fetchval(self._oldest))
        await self._tell_of_stuck(connection)
        removed = 0
        while True:
            gone = int((await connection.execute(self._expire, self._settings.history_retention)).split()[-1])
            removed += gone
            if gone < BATCH:
                return removed

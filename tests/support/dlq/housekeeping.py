"""Letters of a given age for tests of the housekeeping, and alerts that are kept instead of posted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from surefoot.database.connection import Connection
from surefoot.telemetry.alerts import Alert, Alerts
from tests.support.dlq.letter_rows import insert, letter


class Kept(Alerts):
    """Alerts, in the order they were raised."""

    def __init__(self) -> None:
        super().__init__()
        self.raised: list[Alert] = []

    async def raise_alert(self, alert: Alert) -> None:
        self.raised.append(alert)

    def taken(self, code: str) -> list[Alert]:
        """Those of this code since the last look."""
        found = [alert for alert in self.raised if alert.code == code]
        self.raised = [alert for alert in self.raised if alert.code != code]
        return found


def aged(number: int, days: float, **changed: Any) -> dict[str, Any]:
    """An open letter that died so many days ago."""
    when = datetime.now(UTC) - timedelta(days=days)
    return letter(number, failed_at=when, received_at=when, **changed)


def settled(number: int, days: float, status: str = "REPLAYED", **changed: Any) -> dict[str, Any]:
    """A letter that somebody decided so many days ago."""
    when = datetime.now(UTC) - timedelta(days=days)
    return aged(number, days, status=status, resolved_at=when, resolution="Because.", **changed)


async def put(connection: Connection, *letters: dict[str, Any]) -> None:
    for one in letters:
        await insert(connection, [one])


async def numbers(connection: Connection) -> list[int]:
    """Which letters are left, by the numbers they were made with."""
    rows = await connection.fetch("SELECT log_offset FROM surefoot.dlq_events ORDER BY log_offset")
    return [row[0] for row in rows]


async def set_status(connection: Connection, status: str, *, where: str = "true") -> None:
    when = "now()" if status in ("REPLAYED", "DISCARDED", "SUPERSEDED") else "NULL"
    await connection.execute(f"UPDATE surefoot.dlq_events SET status = '{status}', resolved_at = {when} WHERE {where}")

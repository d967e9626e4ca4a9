"""Telling people about dead letters: once, however many services there are and however often they are started.

Who tells is settled in the database, by compare-and-set. What is told is logged and handed to the webhook before that
is committed: a crash in between tells twice and never nothing. What is said is made by pure functions.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from surefoot.database.connection import Connection
from surefoot.database.schema import checked_schema
from surefoot.dlq.metrics import OPEN
from surefoot.dlq.settings import DlqSettings
from surefoot.events.text import printable
from surefoot.telemetry.alerts import Alert, Alerts
from surefoot.telemetry.webhook import Webhook
from surefoot.webhooks.standard import secret_bytes

MOST_CLAIMED = 10_000
"""Groups claimed in a round."""
MOST_TOLD = 20
"""New groups told of one by one in a round: a flood of them is one sentence."""
QUOTED = 300
BELOW = 0.8
"""Few are open again when they are below this share of many: a count that hovers around the limit is told of once."""


def alerts_of(settings: DlqSettings) -> Alerts:
    """Alerts as the settings of the service have them: where to, in which shape, signed by what."""
    if settings.alert_webhook is None:
        return Alerts()
    secret = settings.alert_secret
    key = None if secret is None else secret_bytes(secret.get_secret_value())
    return Alerts(Webhook(settings.alert_webhook, settings.alert_shape, key))


class DlqAlerts:
    def __init__(self, schema: str, settings: DlqSettings, alerts: Alerts) -> None:
        self._settings = settings
        self._alerts = alerts
        schema = checked_schema(schema)
        # In the order of the fingerprints, as the counting at commit locks them. One that is being counted right now
        # is told of in the next round.
        self._claim = f"""
            WITH new AS (
                SELECT fingerprint FROM {schema}.dlq_groups WHERE told_at IS NULL AND open > 0
                ORDER BY fingerprint LIMIT {MOST_CLAIMED} FOR UPDATE SKIP LOCKED)
            UPDATE {schema}.dlq_groups g SET told_at = now() FROM new WHERE g.fingerprint = new.fingerprint
            RETURNING g.fingerprint, g.consumer, g.event_type, g.reason, g.error_type, g.sentence, g.open,
                g.replayed + g.discarded + g.superseded AS settled, g.last_at"""
        # A group of which nothing is left to do is told of again when it comes back; but not within a day.
        self._forget = f"""
            WITH done AS (
                SELECT fingerprint FROM {schema}.dlq_groups
                WHERE told_at < now() - interval '1 day' AND open = 0 AND replaying = 0 AND discard_requested = 0
                ORDER BY fingerprint LIMIT {MOST_CLAIMED} FOR UPDATE SKIP LOCKED)
            UPDATE {schema}.dlq_groups g SET told_at = NULL FROM done WHERE g.fingerprint = done.fingerprint"""
        self._open = f"SELECT consumer, sum(open)::bigint FROM {schema}.dlq_groups GROUP BY consumer ORDER BY consumer"
        self._many = f"""
            INSERT INTO {schema}.dlq_told (code, subject) VALUES ('many_open', $1::text)
            ON CONFLICT DO NOTHING RETURNING subject"""
        self._few = f"DELETE FROM {schema}.dlq_told WHERE code = 'many_open' AND NOT subject = ANY ($1::text[])"

    async def tell(self, connection: Connection) -> None:
        await self.tell_of_new_groups(connection)
        await self.tell_of_many_open(connection)

    async def tell_of_new_groups(self, connection: Connection) -> None:
        async with connection.transaction():
            rows = await connection.fetch(self._claim)
            latest = sorted(rows, key=lambda row: (row["last_at"], row["fingerprint"]), reverse=True)
            groups = [
                Group(
                    row["fingerprint"],
                    row["consumer"],
                    row["event_type"],
                    row["reason"],
                    row["error_type"],
                    row["sentence"],
                    row["open"],
                    row["settled"],
                )
                for row in latest
            ]
            await self._raise(new_groups(groups))
        await connection.execute(self._forget)

    async def tell_of_many_open(self, connection: Connection) -> None:
        limit = self._settings.many_open
        counts: dict[str, int] = {row[0]: row[1] for row in await connection.fetch(self._open)}
        OPEN.clear()
        for consumer, count in counts.items():
            OPEN.labels(consumer).set(count)
        async with connection.transaction():
            await connection.execute(
                self._few, [name for name, count in counts.items() if not is_few_again(count, limit)]
            )
            for consumer, count in counts.items():
                if is_many(count, limit) and await connection.fetchval(self._many, consumer) is not None:
                    await self._raise([many_open(consumer, count, limit)])

    async def _raise(self, alerts: list[Alert]) -> None:
        for alert in alerts:
            await self._alerts.raise_alert(alert)


@dataclass(frozen=True, slots=True)
class Group:
    fingerprint: str
    consumer: str
    event_type: str | None
    reason: str
    error_type: str
    sentence: str
    open: int
    settled: int
    """Its letters that were replayed, discarded or superseded earlier: it is back."""


@dataclass(frozen=True, slots=True)
class PastRetention:
    """Open letters of a consumer that are older than letters are kept."""

    consumer: str
    count: int
    oldest_id: str
    oldest_at: datetime


def new_groups(groups: Sequence[Group]) -> list[Alert]:
    alerts = [_new_group(group) for group in groups[:MOST_TOLD]]
    if len(groups) > MOST_TOLD:
        more = len(groups) - MOST_TOLD
        sentence = f"There are {more} more new groups of dead letters: surefoot dlq groups --status OPEN."
        alerts.append(Alert("new_group", sentence, {"groups": str(more)}, cause="more"))
    return alerts


def many_open(consumer: str, count: int, limit: int) -> Alert:
    return Alert(
        "many_open",
        f"{_name(consumer)} has {count} open dead letters, more than {limit}: "
        f"surefoot dlq groups --consumer {shlex.quote(consumer)}.",
        {"consumer": consumer, "open": str(count)},
        cause=consumer,
    )


def is_many(count: int, limit: int) -> bool:
    return count > limit


def is_few_again(count: int, limit: int) -> bool:
    return count < limit * BELOW


def held_past_retention(held: PastRetention, retention: timedelta) -> Alert:
    sentence = (
        f"{_letters(held)} older than {_days(retention)}, and later events of the same keys wait. Kept until somebody "
        f"decides: surefoot dlq show {held.oldest_id} is the oldest."
    )
    return Alert("held_letter_past_retention", sentence, _details(held), cause=held.consumer)


def open_past_retention(free: PastRetention, retention: timedelta, grace: timedelta) -> Alert:
    sentence = (
        f"{_letters(free)} older than {_days(retention)}; no key is held. Removed in {_days(grace)} unless "
        f"somebody decides: surefoot dlq show {free.oldest_id} is the oldest."
    )
    return Alert("open_letter_past_retention", sentence, _details(free), cause=free.consumer)


def _new_group(group: Group) -> Alert:
    beginning = "A group of dead letters is back" if group.settled else "There is a new group of dead letters"
    quoted = printable(group.sentence, QUOTED)
    return Alert(
        "new_group",
        f"{beginning}, {group.open} open, of {_name(group.consumer)}: {quoted} "
        f"(surefoot dlq list --group {group.fingerprint})",
        {
            "consumer": group.consumer,
            "event_type": group.event_type or "",
            "reason": group.reason,
            "error_type": group.error_type,
            "fingerprint": group.fingerprint,
            "open": str(group.open),
        },
        cause=group.fingerprint,
    )


def _letters(past: PastRetention) -> str:
    what = "1 open dead letter is" if past.count == 1 else f"{past.count} open dead letters are"
    return f"Of {_name(past.consumer)}, {what}"


def _details(past: PastRetention) -> dict[str, str]:
    return {
        "consumer": past.consumer,
        "letters": str(past.count),
        "oldest": past.oldest_id,
        "oldest_at": past.oldest_at.isoformat(),
    }


def _name(consumer: str) -> str:
    return consumer or "(letters that could not be read)"


def _days(time: timedelta) -> str:
    if time >= timedelta(days=2):
        return f"{time.days} days"
    hours = time / timedelta(hours=1)
    return f"{hours:g} hours"

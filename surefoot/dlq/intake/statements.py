"""The SQL of the intake. In bulk: the letters of a polled batch are written together."""

from surefoot.database.schema import checked_schema
from surefoot.dlq.intake.letters import Letter

# Column by column: how the row is made from a Letter, and what a later letter replaces.
_TYPES = {
    "consumer": "text",
    "source": "text",
    "event_id": "text",
    "event_type": "text",
    "topic": "text",
    "partition": "int",
    "log_offset": "bigint",
    "key": "text",
    "correlation_id": "text",
    "saga_id": "text",
    "recorded_at": "timestamptz",
    "record_key": "bytea",
    "value": "bytea",
    "headers": "text",
    "headers_left_out": "int",
    "reason": "text",
    "error_type": "text",
    "error": "text",
    "stack": "text",
    "fingerprint": "text",
    "failures": "text",
    "attempts": "int",
    "replays": "int",
    "held": "bool",
    "letter_id": "text",
    "failed_at": "timestamptz",
}
_IDENTITY = ("consumer", "source", "event_id")
_JSON = ("headers", "failures")
_SETTLED = "('REPLAYED', 'DISCARDED', 'SUPERSEDED')"


class IntakeStatements:
    def __init__(self, schema: str) -> None:
        schema = checked_schema(schema)
        events = f"{schema}.dlq_events"
        self.receive = f"""
            INSERT INTO {schema}.processed_events (consumer, source, event_id, outcome)
            SELECT $1::text, source, event_id, 'PROCESSED' FROM unnest($2::text[], $3::text[]) AS e(source, event_id)
            ON CONFLICT DO NOTHING RETURNING source, event_id"""
        # In the order of the ids, as whoever settles them does: two that change the same rows wait for each other
        # instead of deadlocking.
        self.lock = f"""
            SELECT d.id FROM {events} d JOIN unnest($1::text[], $2::text[], $3::text[]) AS n(consumer, source, event_id)
            USING (event_id, consumer, source) ORDER BY d.id FOR UPDATE OF d"""
        names = ", ".join(_TYPES)
        given = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_TYPES.values(), start=2))
        values = ", ".join(f"n.{name}::json" if name in _JSON else f"n.{name}" for name in _TYPES)
        replaced = ", ".join(f"{name} = excluded.{name}" for name in _TYPES if name not in (*_IDENTITY, "failed_at"))
        # A replay that fails is told of by whoever runs it, whose clock may be behind that of the one before.
        newer = "(excluded.failed_at > d.failed_at OR excluded.replays > d.replays)"
        # A letter that was written before the event was settled, and comes late, opens nothing.
        reopened = f"(d.status IN {_SETTLED} AND excluded.failed_at > coalesce(d.resolved_at, '-infinity'))"
        self.keep = f"""
            INSERT INTO {events} AS d (id, first_failed_at, {names})
            SELECT n.id, n.failed_at, {values} FROM unnest($1::uuid[], {given}) AS n(id, {names})
            ORDER BY n.id
            ON CONFLICT (event_id, consumer, source) DO UPDATE SET {replaced},
                failed_at = greatest(d.failed_at, excluded.failed_at), deaths = d.deaths + 1,
                status = CASE WHEN {reopened} THEN 'OPEN' ELSE d.status END,
                resolution = CASE WHEN {reopened} THEN NULL ELSE d.resolution END,
                resolved_at = CASE WHEN {reopened} THEN NULL ELSE d.resolved_at END,
                superseded_by = CASE WHEN {reopened} THEN NULL ELSE d.superseded_by END
            WHERE {newer}
            RETURNING d.consumer, d.source, d.event_id, d.deaths"""


def columns_of(letter: Letter) -> tuple[object, ...]:
    """In the order in which `keep` takes them, after the id."""
    return tuple(getattr(letter, name) for name in _TYPES)

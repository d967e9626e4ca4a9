"""The kinds of pages that are measured: every filter, at the beginning and in the middle of the queue."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bench.dlq_letters import CONSUMERS, ERRORS, MONTH, NOW, REASONS, TYPES
from surefoot.database.connection import Connection
from surefoot.dlq.letters.pages import timed


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """What there is to ask for."""

    ids: tuple[str, ...]
    keys: tuple[str, ...]
    sagas: tuple[str, ...]
    flows: tuple[str, ...]
    fingerprints: tuple[str, ...]
    middle_id: str
    middle_time: str
    middle_group: str

    @classmethod
    async def of(cls, connection: Connection) -> "Known":
        some = await connection.fetch("""
            SELECT id::text, key, saga_id, correlation_id FROM surefoot.dlq_events
            WHERE saga_id IS NOT NULL ORDER BY md5(id::text) LIMIT 500""")
        groups = await connection.fetch("""
            SELECT fingerprint, first_at FROM surefoot.dlq_groups ORDER BY first_at DESC, fingerprint DESC""")
        middle = (
            await connection.fetch("""
            SELECT id, failed_at FROM surefoot.dlq_events ORDER BY id DESC
            OFFSET (SELECT count(*) / 2 FROM surefoot.dlq_events) LIMIT 1""")
        )[0]
        in_the_middle = groups[len(groups) // 2]
        return cls(
            ids=tuple(row[0] for row in some),
            keys=tuple(row[1] for row in some),
            sagas=tuple(row[2] for row in some),
            flows=tuple(row[3] for row in some),
            fingerprints=tuple(row[0] for row in groups),
            middle_id=str(middle[0]),
            middle_time=timed(middle[1], middle[0]),
            middle_group=timed(in_the_middle[1], in_the_middle[0]),
        )


def kinds(known: Known, chance: random.Random) -> dict[str, Asked]:
    """One request of each kind, for something else each time."""
    made = {"event": Asked(f"/events/{chance.choice(known.ids)}")}
    for name, filters in _filters(known, chance).items():
        is_of_time = "failed_after" in filters or "failed_before" in filters
        middle = known.middle_time if is_of_time else known.middle_id
        made[f"events {name}"] = Asked("/events", filters)
        made[f"events {name}, in the middle"] = Asked("/events", {**filters, "after": middle})
        made[f"groups {name}"] = Asked("/groups", filters)
    made["groups all, in the middle"] = Asked("/groups", {"after": known.middle_group})
    made["group"] = Asked(f"/groups/{chance.choice(known.fingerprints)}")
    return made


def _filters(known: Known, chance: random.Random) -> dict[str, dict[str, str]]:
    begins = NOW - MONTH * chance.random()
    consumer = chance.randrange(len(CONSUMERS))
    return {
        "all": {},
        "consumer": {"consumer": CONSUMERS[consumer]},
        "event_type": {"event_type": chance.choice(TYPES)},
        "error": {"error": chance.choice(ERRORS).rpartition(".")[2]},
        "reason": {"reason": chance.choice(REASONS)},
        "fingerprint": {"fingerprint": chance.choice(known.fingerprints)},
        "key": {"key": chance.choice(known.keys)},
        "saga": {"saga_id": chance.choice(known.sagas)},
        "flow": {"correlation_id": chance.choice(known.flows)},
        "status OPEN": {"status": "OPEN"},
        "status SUPERSEDED": {"status": "SUPERSEDED"},
        "an hour": {"failed_after": _text(begins), "failed_before": _text(begins + timedelta(hours=1))},
        "all but the latest days": {"failed_before": _text(NOW - timedelta(days=10))},
        "consumer and status": {"consumer": CONSUMERS[consumer], "status": "OPEN"},
        # No group has both: what a plain condition would look for through the whole table.
        "consumer and a type it never had": {"consumer": CONSUMERS[0], "event_type": TYPES[1]},
        "consumer, reason, status, a day": {
            "consumer": CONSUMERS[consumer],
            "reason": REASONS[consumer % len(REASONS)],
            "status": "REPLAYED",
            "failed_after": _text(begins),
            "failed_before": _text(begins + timedelta(days=1)),
        },
    }


def _text(time: datetime) -> str:
    return time.isoformat()

"""Rows of the tables, as values."""

import json

from surefoot.database.connection import Row
from surefoot.idempotency.deciding import Stored
from surefoot.idempotency.values import Answer, Asked, Claim


def stored(row: Row) -> Stored | None:
    if row["fence"] is None:  # nothing was there to join
        return None
    return Stored(
        state=row["state"],
        effect=row["effect"],
        fingerprint=row["fingerprint"],
        fingerprint_version=row["fingerprint_version"],
        fence=row["fence"],
        attempts=row["attempts"],
        created_at=row["created_at"],
        lease_until=row["lease_until"],
        replay_until=row["replay_until"],
        gone_until=row["gone_until"],
        resource=row["resource"],
        answer=_answer(row),
    )


def _answer(row: Row) -> Answer | None:
    if row["status"] is None or row["headers"] is None or row["body"] is None:
        return None
    headers = tuple((name, value) for name, value in json.loads(row["headers"]))
    return Answer(status=row["status"], headers=headers, body=row["body"])


def taken_over(row: Row, so_far: Row, asked: Asked) -> Claim:
    """The claim of a row whose fence has just been raised, with what earlier attempts have done."""
    names, results = so_far["names"], so_far["results"]
    return Claim(
        asked,
        fence=row["fence"],
        attempt=row["attempts"],
        created_at=row["created_at"],
        minted=json.loads(row["minted"]),
        provider_key=so_far["provider_key"],
        phases={
            name: None if result is None else json.loads(result) for name, result in zip(names, results, strict=True)
        },
        in_doubt=bool(so_far["unsettled"]) or (row["outcome_unknown"] and not so_far["is_settled"]),
        unsettled=frozenset(so_far["unsettled"]),
    )


def asked_for(key_hash: bytes, row: Row) -> Asked:
    return Asked(
        tenant=row["tenant"],
        key_hash=key_hash,
        route=row["route"],
        effect=row["effect"],
        fingerprint=row["fingerprint"],
        fingerprint_version=row["fingerprint_version"],
    )

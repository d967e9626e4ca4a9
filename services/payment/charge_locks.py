"""One at a time for one of the gateway's transactions, until the database transaction ends.

Without it a webhook finds no charge of its transaction, and is kept, while the inline answer that names the transaction
looks for kept ones, and sees none: each in time to miss the other, and the news would lie there for ever.

Everybody takes them in one order, or two would wait for each other: the charge first, then transactions by number; and
both before any row of the charge is locked.
"""

import hashlib

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

_CHARGE, _TRANSACTION = 1937076871, 1937076872
"""What the other number stands for. Two names may have the same: they take turns then, and no harm is done."""
_LOCK = text("SELECT pg_advisory_xact_lock(:of, name) FROM unnest(CAST(:names AS int[])) AS name")


async def lock_charge(session: AsyncSession, charge_id: str) -> None:
    await session.execute(_LOCK, {"of": _CHARGE, "names": [_number(charge_id)]})


async def lock_transactions(session: AsyncSession, *gateway_txn_ids: str) -> None:
    await session.execute(_LOCK, {"of": _TRANSACTION, "names": sorted({_number(name) for name in gateway_txn_ids})})


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big", signed=True)

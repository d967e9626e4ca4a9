"""The provider's books: every answer it gives is committed here before it is given.

A key has one row for good, so the first to come decides: a charge, a decline, or a void that bars both. Whoever comes
second with the same key waits for the first one's commit and gets to see what became of it. Nothing is ever deleted. A
charge that was voided before it came has a row as well, without an amount: a tombstone.
"""

from typing import Any
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB

from services.provider.behaviour import DeclineReason, Operation, Rule
from services.provider.messages import (
    BehaviourAsked,
    Charge,
    ChargeAsked,
    Problem,
    Refund,
    RefundAsked,
    Sum,
    Totals,
    Void,
)
from surefoot.database.connection import Connection, Pool, Row
from surefoot.events import Money

metadata = MetaData(schema="provider")

charges = Table(
    "charges",
    metadata,
    Column("key", Text, primary_key=True, comment="the caller's idempotency key"),
    Column("charge_id", Text, unique=True, comment="null in a tombstone"),
    Column("order_id", Text),
    Column("amount", BigInteger, comment="minor units; null in a tombstone"),
    Column("currency", Text),
    Column("status", Text, nullable=False),
    Column("reason", Text, comment="why it was declined"),
    Column("refunded", BigInteger, nullable=False, server_default="0"),
    Column("late", Integer, nullable=False, server_default="0", comment="charges refused because it was voided"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('CAPTURED', 'DECLINED', 'VOIDED')", name="charges_status"),
    CheckConstraint("amount > 0", name="charges_amount"),
    CheckConstraint("refunded BETWEEN 0 AND coalesce(amount, 0)", name="charges_refunded"),
    Index("charges_by_order", "order_id"),
)

refunds = Table(
    "refunds",
    metadata,
    Column("refund_request_id", Text, primary_key=True, comment="the caller's; void:<key> for a void"),
    Column("refund_id", Text, nullable=False, unique=True),
    Column("charge_id", Text, ForeignKey(charges.c.charge_id), nullable=False, index=True),
    Column("amount", BigInteger, nullable=False),
    Column("currency", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("amount > 0", name="refunds_amount"),
)

rules = Table(
    "rules",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("asked", JSONB, nullable=False, comment="as it came in by POST /behaviour"),
)

misbehaved = Table(
    "misbehaved",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("request", Text, primary_key=True, comment="operation and key"),
    Column("times", Integer, nullable=False),
)


_CHARGE = """
    INSERT INTO provider.charges (key, charge_id, order_id, amount, currency, status, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (key) DO NOTHING RETURNING *
"""
_TOMBSTONE = "INSERT INTO provider.charges (key, status) VALUES ($1, 'VOIDED') ON CONFLICT (key) DO NOTHING RETURNING 1"
_FIND = "SELECT * FROM provider.charges WHERE key = $1"
_FIND_BY_ID = "SELECT * FROM provider.charges WHERE charge_id = $1"
_GIVE_BACK = """
    UPDATE provider.charges SET refunded = refunded + $2, status = $3 WHERE key = $1
"""
_REFUND = """
    INSERT INTO provider.refunds (refund_request_id, refund_id, charge_id, amount, currency)
    VALUES ($1, $2, $3, $4, $5)
"""
_REFUSED_LATE = "UPDATE provider.charges SET late = late + 1 WHERE key = $1"
_FIND_REFUND = "SELECT * FROM provider.refunds WHERE refund_request_id = $1"
_USE_RULE = """
    INSERT INTO provider.misbehaved AS used (rule, request, times) VALUES ($1, $2, 1)
    ON CONFLICT (rule, request) DO UPDATE SET times = used.times + 1 WHERE used.times < $3 RETURNING 1
"""
_SUMS = """
    SELECT currency, count(*) AS charges, sum(amount)::bigint AS captured, sum(refunded)::bigint AS refunded
    FROM provider.charges WHERE charge_id IS NOT NULL AND status <> 'DECLINED' GROUP BY 1 ORDER BY 1
"""
_COUNTS = """
    SELECT count(*) FILTER (WHERE status = 'DECLINED') AS declined,
           count(*) FILTER (WHERE charge_id IS NULL) AS tombstones,
           (SELECT count(*) FROM (SELECT FROM provider.charges WHERE charge_id IS NOT NULL AND status <> 'DECLINED'
                                  GROUP BY order_id HAVING count(*) > 1) AS twice) AS charged_twice
    FROM provider.charges
"""


class Ledger:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def charge(self, key: str, asked: ChargeAsked, decline: DeclineReason | None) -> Charge | Problem:
        """Take the money, or remember that it was not to be had. A key that is known gets what it got before."""
        amount = asked.amount
        status = "CAPTURED" if decline is None else "DECLINED"
        values = (key, _new("ch"), asked.order_id, amount.minor_units, amount.currency, status, decline)
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_CHARGE, *values) or await connection.fetchrow(_FIND, key)
            assert row is not None
            charge = _charge(row)
            if charge.status == "VOIDED":
                await connection.execute(_REFUSED_LATE, key)
        if charge.status == "VOIDED":
            return Problem(code="voided", sentence="This key was voided: it is never charged.")
        if (charge.order_id, charge.amount) != (asked.order_id, amount):
            return Problem(
                code="key_reused",
                sentence=f"This key was used for {charge.amount} of order {charge.order_id}: one key, one charge.",
            )
        return charge

    async def void(self, key: str) -> Void:
        """Give back all that is left of the charge; or see to it that there will never be one."""
        async with self._pool.acquire() as connection, connection.transaction():
            if await connection.fetchrow(_TOMBSTONE, key):
                return Void(key=key, charge_id=None, refunded=None)
            charge = _charge(await _locked(connection, _FIND, key))
            request_id = f"void:{key}"
            known = await connection.fetchrow(_FIND_REFUND, request_id)
            if known is not None:
                return Void(key=key, charge_id=charge.charge_id, refunded=_money(known))
            if charge.status != "CAPTURED" or charge.amount is None or charge.refunded is None:
                return Void(key=key, charge_id=charge.charge_id, refunded=None)
            left = charge.amount - charge.refunded
            if left.minor_units:
                await connection.execute(_REFUND, request_id, _new("re"), charge.charge_id, *_columns(left))
            await connection.execute(_GIVE_BACK, key, left.minor_units, "VOIDED")
            return Void(key=key, charge_id=charge.charge_id, refunded=left if left.minor_units else None)

    async def refund(self, asked: RefundAsked) -> Refund | Problem:
        """Give back a part, once for each request, never more than was taken."""
        async with self._pool.acquire() as connection, connection.transaction():
            found = await connection.fetchrow(_FIND_BY_ID + " FOR UPDATE", asked.charge_id)
            if found is None or found["status"] == "DECLINED":
                return Problem(
                    code="unknown_charge", sentence=f"There is no charge {asked.charge_id} to give back from."
                )
            known = await connection.fetchrow(_FIND_REFUND, asked.refund_request_id)
            if known is not None:
                return _known_refund(known, asked)
            charge = _charge(found)
            assert charge.amount is not None
            assert charge.refunded is not None
            if asked.amount.currency != charge.amount.currency or charge.refunded + asked.amount > charge.amount:
                return Problem(
                    code="exceeds_captured",
                    sentence=f"{charge.amount} was taken and {charge.refunded} given back: {asked.amount} is too much.",
                )
            refund_id = _new("re")
            values = (asked.refund_request_id, refund_id, asked.charge_id, *_columns(asked.amount))
            await connection.execute(_REFUND, *values)
            await connection.execute(_GIVE_BACK, charge.key, asked.amount.minor_units, charge.status)
        return Refund(refund_id=refund_id, **asked.model_dump(exclude={"amount"}), amount=asked.amount)

    async def find(self, key: str) -> Charge | None:
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_FIND, key)
        return None if row is None else _charge(row)

    async def order_of(self, charge_id: str) -> str | None:
        async with self._pool.acquire() as connection:
            row = await connection.fetchrow(_FIND_BY_ID, charge_id)
        return None if row is None else row["order_id"]

    async def totals(self) -> Totals:
        async with self._pool.acquire() as connection:
            sums = await connection.fetch(_SUMS)
            counts = await connection.fetchrow(_COUNTS)
        assert counts is not None
        return Totals(
            sums=tuple(Sum(**dict(row)) for row in sums),  # type: ignore[call-overload]
            declined=counts["declined"],
            tombstones=counts["tombstones"],
            charged_twice=counts["charged_twice"],
        )

    async def use(self, rule: Rule, operation: Operation, key: str) -> bool:
        """Whether the rule still applies to this key; if so, it has been used once more."""
        async with self._pool.acquire() as connection:
            return await connection.fetchrow(_USE_RULE, rule.name, f"{operation}:{key}", rule.times) is not None

    async def add_rule(self, asked: BehaviourAsked) -> Rule:
        statement = "INSERT INTO provider.rules (asked) VALUES ($1::jsonb) RETURNING number"
        async with self._pool.acquire() as connection:
            return asked.rule(await connection.fetchval(statement, asked.model_dump_json()))

    async def rules(self) -> list[Rule]:
        async with self._pool.acquire() as connection:
            rows = await connection.fetch("SELECT number, asked::text FROM provider.rules ORDER BY number")
        return [BehaviourAsked.model_validate_json(row["asked"]).rule(row["number"]) for row in rows]


async def _locked(connection: Connection, query: str, argument: str) -> Row:
    row = await connection.fetchrow(query + " FOR UPDATE", argument)
    assert row is not None
    return row


def _known_refund(known: Row, asked: RefundAsked) -> Refund | Problem:
    refund = Refund(
        refund_id=known["refund_id"],
        refund_request_id=known["refund_request_id"],
        charge_id=known["charge_id"],
        amount=_money(known),
    )
    if (refund.charge_id, refund.amount) != (asked.charge_id, asked.amount):
        return Problem(
            code="request_reused",
            sentence=f"This refund request was for {refund.amount} of {refund.charge_id}: one request, one refund.",
        )
    return refund


def _charge(row: Row) -> Charge:
    tombstone = row["charge_id"] is None
    return Charge(
        key=row["key"],
        charge_id=row["charge_id"],
        order_id=row["order_id"],
        amount=None if tombstone else _money(row),
        refunded=None if tombstone else Money.minor(row["refunded"], row["currency"]),
        status=row["status"],
        reason=row["reason"],
        late=row["late"],
    )


def _money(row: Row) -> Money:
    return Money.minor(row["amount"], row["currency"])


def _columns(money: Money) -> tuple[Any, ...]:
    return money.minor_units, money.currency


def _new(prefix: str) -> str:
    return f"{prefix}_{uuid4().hex}"

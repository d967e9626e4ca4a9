"""The books that charges of the payments API are in: its own, the provider's, and the ledger's lines of them.

The provider knows such a charge by our id in place of an order's; no order's id looks like one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.checks.money_books import Charge, GivenBack
from services.checks.reading import read
from services.settings import ServiceSettings

OURS = "SELECT charge_id, tenant, status, amount, refunded, currency, gateway_txn_id FROM payments.charges"
REFUNDS = "SELECT refund_id, charge_id, status, amount, currency FROM payments.charge_refunds"
THEIRS = r"""
    SELECT key, charge_id, order_id, status, amount, refunded, currency FROM provider.charges
    WHERE order_id LIKE 'ch\_%'"""
GIVEN_BACK = r"""
    SELECT refund_request_id, charge_id, refund.amount, refund.currency
    FROM provider.refunds AS refund JOIN provider.charges AS charge USING (charge_id)
    WHERE order_id LIKE 'ch\_%'"""
LINES = r"""
    SELECT operation_id, account_id, change, entry.currency
    FROM ledger.entries AS entry JOIN ledger.accounts AS account USING (account_id)
    WHERE account.kind = 'inside' AND (operation_id LIKE 'ch\_%' OR operation_id LIKE 're\_%')"""


class Ours(NamedTuple):
    charge_id: str
    tenant: str
    status: str
    amount: int
    refunded: int
    currency: str
    gateway_txn_id: str | None


class OurRefund(NamedTuple):
    refund_id: str
    charge_id: str
    status: str
    amount: int
    currency: str


class LedgerLine(NamedTuple):
    """Of a tenant's account; the other side is the world outside."""

    operation_id: str
    account_id: str
    change: int
    currency: str


@dataclass(frozen=True, slots=True)
class Books:
    ours: Sequence[Ours] = ()
    refunds: Sequence[OurRefund] = ()
    theirs: Sequence[Charge] = ()
    given_back: Sequence[GivenBack] = ()
    lines: Sequence[LedgerLine] = ()


async def read_books(settings: ServiceSettings) -> Books:
    ours, refunds = await read(settings.database_of("payment"), OURS, REFUNDS)
    theirs, given_back = await read(settings.database_of("provider"), THEIRS, GIVEN_BACK)
    (lines,) = await read(settings.database_of("ledger"), LINES)
    return Books(
        [Ours(*row) for row in ours],
        [OurRefund(*row) for row in refunds],
        [Charge(*row) for row in theirs],
        [GivenBack(*row) for row in given_back],
        [LedgerLine(*row) for row in lines],
    )

"""Charges of the payments API add up: taken once at the provider, known here, and on the ledger in one line.

Pure functions over the books of the API, the provider and the ledger; `check()` reads them and runs all. They know
nothing of how a charge is made. To be run when all requests have come to rest. The provider knows such a charge by our
id in place of an order's; no order's id looks like one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from services.checks.checker import Finding, read
from services.checks.money import Charge, GivenBack
from services.settings import ServiceSettings

Violation = Literal["charged_twice", "unknown_charge", "disagreement", "unfinished", "not_on_the_ledger"]
"""charged_twice: the provider has taken the money of a charge more than once. unknown_charge: it has taken money that
is in no charge of ours. disagreement: both sides say different things of a charge or a refund. unfinished: something
was begun and never answered. not_on_the_ledger: the ledger's lines are not what was taken and given back."""
Found = Finding[Violation]

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


TAKEN = ("CAPTURED", "REFUNDED")
OPEN = ("PENDING", "AUTHORIZED")


async def check(settings: ServiceSettings) -> list[Found]:
    return findings(await read_books(settings))


def findings(books: Books) -> list[Found]:
    return [
        *charged_twice(books),
        *unknown_charges(books),
        *charges_disagree(books),
        *refunds_disagree(books),
        *unfinished(books),
        *not_on_the_ledger(books),
    ]


def charged_twice(books: Books) -> Iterable[Found]:
    times = Counter(charge.order_id for charge in books.theirs if charge.taken)
    for charge_id, count in times.items():
        if count > 1:
            yield Finding("charged_twice", f"charge {charge_id} was taken {count} times at the provider")


def unknown_charges(books: Books) -> Iterable[Found]:
    known = {charge.charge_id for charge in books.ours}
    for charge in books.theirs:
        if charge.taken and charge.order_id not in known:
            yield Finding(
                "unknown_charge", f"{charge.taken} was taken for {charge.order_id}, which is not in our books"
            )


def charges_disagree(books: Books) -> Iterable[Found]:
    theirs: defaultdict[str | None, list[Charge]] = defaultdict(list)
    for charge in books.theirs:
        theirs[charge.order_id].append(charge)
    for ours in books.ours:
        if ours.status not in OPEN:
            yield from _disagree(ours, [charge for charge in theirs[ours.charge_id] if charge.taken])


def _disagree(ours: Ours, taken: list[Charge]) -> Iterable[Found]:
    mine = [(ours.gateway_txn_id, ours.amount, ours.refunded, ours.currency)] if ours.status in TAKEN else []
    other = [(one.charge_id, one.amount, one.refunded, one.currency) for one in taken]
    if mine != other:
        yield Finding(
            "disagreement",
            f"charge {ours.charge_id} is {ours.status} here with (transaction, amount, refunded, currency) {mine}, the "
            f"provider has {other}",
        )


def refunds_disagree(books: Books) -> Iterable[Found]:
    """Those that somebody made at the provider's own desk are under the provider's names, and in the sums alone."""
    ours = {one.refund_id: one.amount for one in books.refunds if one.status == "REFUNDED" and _is_own(one)}
    theirs = {one.refund_request_id: one.amount for one in books.given_back}
    for refund_id in sorted(ours):
        if ours[refund_id] != theirs.get(refund_id):
            yield Finding(
                "disagreement", f"refund {refund_id} is {ours[refund_id]} here and {theirs.get(refund_id)} there"
            )
    for refund in books.refunds:
        if refund.status == "REFUSED" and refund.refund_id in theirs:
            yield Finding("disagreement", f"refund {refund.refund_id} is REFUSED here, and was made at the provider")


def unfinished(books: Books) -> Iterable[Found]:
    for charge in books.ours:
        if charge.status in OPEN:
            yield Finding("unfinished", f"charge {charge.charge_id} is {charge.status}: it was never answered")
    for refund in books.refunds:
        if refund.status == "PENDING":
            yield Finding("unfinished", f"refund {refund.refund_id} was never answered")


def not_on_the_ledger(books: Books) -> Iterable[Found]:
    """One line for what was taken, one for each refund; of a refused one two that come to nothing."""
    lines: defaultdict[str, list[LedgerLine]] = defaultdict(list)
    for line in books.lines:
        lines[line.operation_id].append(line)
    for charge in books.ours:
        expected = [charge.amount] if charge.status in TAKEN else []
        yield from _lines_differ(f"charge {charge.charge_id}", expected, lines.pop(charge.charge_id, []))
    for refund in books.refunds:
        given = lines.pop(refund.refund_id, [])
        yield from _lines_differ(f"refund {refund.refund_id}", [-refund.amount], given)
        back = [refund.amount] if refund.status == "REFUSED" else []
        name = f"{refund.refund_id}:refused"
        yield from _lines_differ(f"refused refund {refund.refund_id}", back, lines.pop(name, []))
    for operation_id, found in lines.items():
        changes = [line.change for line in found]
        yield Finding("not_on_the_ledger", f"the ledger has {changes} for {operation_id}, which nobody asked for")


def _lines_differ(what: str, expected: list[int], found: list[LedgerLine]) -> Iterable[Found]:
    changes = [line.change for line in found]
    if changes != expected:
        yield Finding("not_on_the_ledger", f"{what} should have the lines {expected} on the ledger, and has {changes}")


def _is_own(refund: OurRefund) -> bool:
    return ":elsewhere:" not in refund.refund_id

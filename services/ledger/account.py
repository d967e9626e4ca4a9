"""Opening an account within the caller's transaction."""

from services.ledger import statements
from services.ledger.move import check_account
from services.ledger.moves import Executor, execute
from services.ledger.outcome import InvalidMove
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch


async def open_account(tx: Executor, account_id: str, currency: str, *, cap: Money | None = None) -> None:
    """An account with nothing in it. One that is there is left as it is, and nobody who uses it waits for this."""
    check_account(account_id)
    if cap is not None and cap.currency != currency:
        raise CurrencyMismatch(f"An account in {currency} cannot have a cap of {cap}.")
    nothing = Money.minor(0, currency)  # refuses what is no currency
    if cap is not None and cap < nothing:
        raise InvalidMove(f"An account cannot have a cap of {cap}: it would hold less than nothing.")
    await execute(tx, statements.open_account(account_id, currency, None if cap is None else cap.minor_units))
    known = (await execute(tx, statements.balance(account_id))).one()
    if known.currency != currency:
        raise CurrencyMismatch(f"The account {account_id} is there already, in {known.currency}.")

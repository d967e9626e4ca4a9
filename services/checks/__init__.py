"""Proofs over what the services have left in their tables. A finding is a sentence; none means that all adds up."""

from services.checks import charges, flows, ledger, money, stock
from services.settings import ServiceSettings

__all__ = ["contradictions"]


async def contradictions(settings: ServiceSettings) -> list[str]:
    """What all of the checkers find, as sentences. To be asked when the services have come to rest."""
    return [
        *(found.sentence for found in await money.check(settings)),
        *(found.sentence for found in await charges.check(settings)),
        *(found.sentence for found in await stock.check(settings.database_of("warehouse"))),
        *(found.sentence for found in await flows.check(settings)),
        *(found.sentence for found in await ledger.check(settings.database_of("ledger"))),
    ]

"""Which carrier goes where, and which parcels none of them fetches. Pure."""

from schemas.parts import Address
from schemas.shipping import LabelRefusal

NEAR = frozenset({"AT", "BE", "CH", "CZ", "DE", "DK", "ES", "FI", "FR", "IE", "IT", "LU", "NL", "NO", "PL", "PT", "SE"})
FAR = frozenset({"AU", "CA", "GB", "JP", "NZ", "US"})


def carrier_to(address: Address) -> str:
    """Parcels go everywhere; what is not near goes by air."""
    return "post" if address.country in NEAR else "air-freight"


def refusal_of(ship_from: Address) -> LabelRefusal | None:
    """Why no carrier fetches a parcel there; None if one does."""
    return None if ship_from.country in NEAR | FAR else "address_not_served"

"""Who may use the admin service: local tokens, JWTs of an issuer, and what each is refused for."""

from dlq.access.access import Access, check_access
from dlq.access.refusals import Refusal, RefusalReason
from dlq.access.settings import AccessSettings
from dlq.access.tokens import NoSuchToken, TokenLine, TokenMade, Tokens

__all__ = [
    "Access",
    "AccessSettings",
    "NoSuchToken",
    "Refusal",
    "RefusalReason",
    "TokenLine",
    "TokenMade",
    "Tokens",
    "check_access",
]

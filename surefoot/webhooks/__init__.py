"""Webhooks, signed and verified: who sent it, that nobody changed it, and that it is new.

    keys = keys_of("standard", ["whsec_…", "whsec_the one before"])
    match verify("standard", request.headers.raw, body, keys, now=datetime.now(UTC)):
        case Verified(): …
        case Rejected(sentence=sentence): …          # 400

Two schemes: Stripe's (`Stripe-Signature: t=…,v1=…`) and Standard Webhooks (`webhook-id`, `webhook-timestamp`,
`webhook-signature`; the same under svix's names). Pure: no clock, no network, and whatever the headers hold, an answer
and never an exception.
"""

from surefoot.webhooks.header_lines import Reason, Rejected
from surefoot.webhooks.verifying import TOLERANCE, Scheme, Verified, keys_of, sign, verify

__all__ = ["TOLERANCE", "Reason", "Rejected", "Scheme", "Verified", "keys_of", "sign", "verify"]

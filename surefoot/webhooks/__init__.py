"""Webhooks, signed and verified: who sent it, that nobody changed it, and that it is new.

    keys = keys_of("standard", ["whsec_…", "whsec_the one before"])
    match verify("standard", request.headers.raw, body, keys, now=datetime.now(UTC)):
        case Verified(): …
        case Rejected(sentence=sentence): …          # 400

Two schemes: Stripe's (`Stripe-Signature: t=…,v1=…`) and Standard Webhooks (`webhook-id`, `webhook-timestamp`,
`webhook-signature`; the same under svix's names). Pure: no clock, no network, and whatever the headers hold, an answer
and never an exception.
"""

from surefoot.webhooks.schemes import Scheme, keys_of, sign
from surefoot.webhooks.values import Reason, Rejected
from surefoot.webhooks.verifying import TOLERANCE, Verified, verify

__all__ = ["TOLERANCE", "Reason", "Rejected", "Scheme", "Verified", "keys_of", "sign", "verify"]

"""What `surefoot up` runs the payments API with: an API key and a secret, made on the first start, kept beside the
database, and read by whoever runs it alone."""

import secrets
from dataclasses import dataclass
from pathlib import Path

import orjson
from cryptography.fernet import Fernet

from services.local_platform.local_token import kept, write_private
from services.payment.api.access import LOCAL_TENANT, hash_of

KEY, SECRET = "payments.key", "payments.secret"


@dataclass(frozen=True, slots=True)
class LocalPayments:
    key: Path
    """Where the API key is."""
    environment: dict[str, str]
    """Of the API's process."""


def local_payments(directory: Path) -> LocalPayments:
    key = _made_once(directory / KEY, "sk_local_" + secrets.token_urlsafe(32))
    secret = _made_once(directory / SECRET, Fernet.generate_key().decode())
    hashed = f"sha256:{hash_of(key).hex()}"
    environment = {
        "SUREFOOT_PAYMENT_API_KEYS": orjson.dumps({hashed: LOCAL_TENANT}).decode(),
        "SUREFOOT_IDEMPOTENCY_SECRETS": orjson.dumps([secret]).decode(),
    }
    return LocalPayments(directory / KEY, environment)


def _made_once(path: Path, new: str) -> str:
    known = kept(path)
    if known:
        return known
    write_private(path, new)
    return new

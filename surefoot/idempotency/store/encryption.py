"""Requests at rest: what the completer needs to make one again, encrypted with the first secret, readable with any."""

import base64
from collections.abc import Sequence

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr

from surefoot.errors import ConfigurationError
from surefoot.idempotency.values import StoredRequest

MAKE_ONE = (
    "Make one with `python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'` and set "
    """SUREFOOT_IDEMPOTENCY_SECRETS='["…"]' (the first encrypts, all of them decrypt)."""
)


class Encryption:
    def __init__(self, secrets: Sequence[SecretStr]) -> None:
        try:
            keys = [Fernet(secret.get_secret_value()) for secret in secrets]
        except ValueError:
            raise ConfigurationError(f"One of the idempotency secrets is not a Fernet key. {MAKE_ONE}") from None
        self._fernet = MultiFernet(keys) if keys else None

    def require(self) -> MultiFernet:
        if self._fernet is None:
            raise ConfigurationError(
                "A route with an outside effect stores its requests encrypted, and there is no secret to do it with. "
                f"{MAKE_ONE}"
            )
        return self._fernet

    def encrypted(self, request: StoredRequest) -> bytes:
        plain = {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "headers": request.headers,
            "body": base64.b64encode(request.body).decode(),
            "tenant": request.tenant,
        }
        return self.require().encrypt(orjson.dumps(plain))

    def decrypted(self, stored: bytes) -> StoredRequest:
        try:
            plain = orjson.loads(self.require().decrypt(stored))
        except InvalidToken:
            raise ConfigurationError(
                "A stored request cannot be decrypted with any of the idempotency secrets. Keep the old secret behind "
                "the new one until what was encrypted with it is done (`surefoot idempotency stuck` lists it)."
            ) from None
        return StoredRequest(
            method=plain["method"],
            path=plain["path"],
            query=plain["query"],
            headers=tuple((name, value) for name, value in plain["headers"]),
            body=base64.b64decode(plain["body"]),
            tenant=plain["tenant"],
        )

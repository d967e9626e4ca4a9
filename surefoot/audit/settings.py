"""Whose tokens are accepted, and how much one person may ask for. Read once at the edge, checked together."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError
from surefoot.http.listening import LOOPBACK
from surefoot.settings import Internal

SHORTEST_SECRET = 32
"""Bytes: a shared secret shorter than the digest can be found by trying (RFC 7518, 3.2)."""


class AccessSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_DLQ_JWT_JWKS, SUREFOOT_DLQ_JWT_AUDIENCE, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_DLQ_", frozen=True, extra="ignore")

    jwt_jwks: str | None = Field(None, description="Where the issuer's public keys are: a file, or an https:// URL.")
    # A key set does what these two do, so only that is documented.
    jwt_public_key: Internal[Path | None] = Field(None, description="A file with one public key in PEM.")
    jwt_secret: Internal[SecretStr | None] = Field(
        None, description="A secret shared with the issuer, of 32 bytes or more."
    )
    jwt_audience: str | None = Field(None, description="What a token must be made for: its `aud`.")
    jwt_issuer: str | None = Field(None, description="Who must have made it: its `iss`.")
    jwt_role_claim: str = Field("role", min_length=1, description="The claim that has the role, or several.")
    jwt_name_claim: str = Field("sub", min_length=1, description="The claim that decisions are kept under.")
    requests_per_second: Internal[float] = Field(20, gt=0, description="What one person may ask for, in the long run.")
    requests_at_once: Internal[int] = Field(60, ge=1, description="What one person may ask for at once.")
    refusals_recorded_per_minute: Internal[int] = Field(
        6, ge=1, description="Refused strangers that the audit log gets, from each address; the rest is counted."
    )

    @property
    def accepts_jwt(self) -> bool:
        return any(source is not None for source in (self.jwt_jwks, self.jwt_public_key, self.jwt_secret))

    @model_validator(mode="after")
    def _agree(self) -> Self:
        sources = [self.jwt_jwks, self.jwt_public_key, self.jwt_secret]
        if sum(source is not None for source in sources) > 1:
            raise ConfigurationError(
                "More than one of SUREFOOT_DLQ_JWT_JWKS, _JWT_PUBLIC_KEY and _JWT_SECRET is set: whose tokens count "
                "must be said once. Leave one."
            )
        if self.accepts_jwt and not (self.jwt_audience and self.jwt_issuer):
            raise ConfigurationError(
                "JWTs are accepted only with SUREFOOT_DLQ_JWT_AUDIENCE and SUREFOOT_DLQ_JWT_ISSUER set: without them a "
                "token made for something else would open the dead letters."
            )
        if self.jwt_secret is not None and len(self.jwt_secret.get_secret_value().encode()) < SHORTEST_SECRET:
            raise ConfigurationError(
                f"SUREFOOT_DLQ_JWT_SECRET has fewer than {SHORTEST_SECRET} bytes, and can be found by trying: take a "
                "longer one."
            )
        if self.jwt_jwks is not None and _is_plain_http(self.jwt_jwks):
            raise ConfigurationError(
                f"SUREFOOT_DLQ_JWT_JWKS is {self.jwt_jwks}: keys that decide who gets in are taken over https:// only."
            )
        return self


def _is_plain_http(where: str) -> bool:
    parts = urlsplit(where)
    return parts.scheme.lower() == "http" and parts.hostname not in LOOPBACK

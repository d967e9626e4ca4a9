"""How the layer behaves, read once at the edge and checked together. Times can be compressed in tests."""

from datetime import timedelta
from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class IdempotencySettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_IDEMPOTENCY_LEASE, SUREFOOT_IDEMPOTENCY_SECRETS, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_IDEMPOTENCY_", frozen=True, extra="ignore")

    secrets: tuple[SecretStr, ...] = Field(
        (),
        description="What stored requests are encrypted with, as JSON list of Fernet keys; the first encrypts, all of "
        "them decrypt. Needed as soon as a route has an outside effect.",
    )
    strict_keys: bool = Field(False, description="Take keys as structured-field strings alone, in double quotes.")
    mismatch_status: int = Field(422, description="What a key used for another request is answered with: 422 or 409.")
    lease: timedelta = Field(timedelta(seconds=30), gt=timedelta(0))
    renew_every: timedelta = Field(timedelta(seconds=10), gt=timedelta(0))
    longest_lease: timedelta = Field(timedelta(seconds=180), gt=timedelta(0))
    wait_in_flight: timedelta = Field(timedelta(seconds=5), ge=timedelta(0))
    grace: timedelta = Field(
        timedelta(seconds=2), ge=timedelta(0), description="How long after a lease the completer leaves it to clients."
    )
    complete_every: timedelta = Field(timedelta(seconds=1), gt=timedelta(0))
    retry_first: timedelta = Field(timedelta(seconds=1), gt=timedelta(0), description="The completer's rest, doubled.")
    retry_longest: timedelta = Field(timedelta(minutes=5), gt=timedelta(0))
    call_timeout: timedelta = Field(timedelta(seconds=20), gt=timedelta(0))
    largest_body: int = Field(1024 * 1024, gt=0, description="Of a request with a key, and of an answer, in bytes.")
    reap_every: timedelta = Field(timedelta(minutes=1), gt=timedelta(0))
    reap_batch: int = Field(5_000, gt=0)
    keep_history: timedelta = Field(timedelta(days=7 * 365 + 2), gt=timedelta(0))
    docs: str = Field(
        "/problems/idempotency",
        description="Where problem types are explained: type is docs/name; served by the layer.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.mismatch_status not in (409, 422):
            raise ValueError("mismatch_status must be 422 or 409")
        if not self.renew_every < self.lease <= self.longest_lease:
            raise ValueError("renew_every must be shorter than lease, and lease not longer than longest_lease")
        if self.call_timeout >= self.longest_lease:
            raise ValueError("call_timeout must be shorter than longest_lease: a call must end before the claim does")
        return self

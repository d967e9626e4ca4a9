"""How the layer behaves: what the environment sets for all of it, and what each route says about its own requests.

Both are frozen, and checked when they are made. Times can be compressed in tests."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError
from surefoot.idempotency.values import Effect
from surefoot.settings import Internal


class IdempotencySettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_IDEMPOTENCY_SECRETS, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_IDEMPOTENCY_", frozen=True, extra="ignore")

    secrets: tuple[SecretStr, ...] = Field(
        (),
        description="What stored requests are encrypted with, as JSON list of Fernet keys; the first encrypts, all of "
        "them decrypt. Needed as soon as a route has an outside effect.",
    )
    strict_keys: bool = Field(False, description="Take keys as structured-field strings alone, in double quotes.")
    mismatch_status: Internal[int] = Field(
        422, description="What a key used for another request is answered with: 422 or 409."
    )
    lease: Internal[timedelta] = Field(timedelta(seconds=30), gt=timedelta(0))
    renew_every: Internal[timedelta] = Field(timedelta(seconds=10), gt=timedelta(0))
    longest_lease: Internal[timedelta] = Field(timedelta(seconds=180), gt=timedelta(0))
    wait_in_flight: Internal[timedelta] = Field(timedelta(seconds=5), ge=timedelta(0))
    grace: Internal[timedelta] = Field(
        timedelta(seconds=2), ge=timedelta(0), description="How long after a lease the completer leaves it to clients."
    )
    complete_every: Internal[timedelta] = Field(timedelta(seconds=1), gt=timedelta(0))
    retry_first: Internal[timedelta] = Field(
        timedelta(seconds=1), gt=timedelta(0), description="The completer's rest, doubled."
    )
    retry_longest: Internal[timedelta] = Field(timedelta(minutes=5), gt=timedelta(0))
    call_timeout: timedelta = Field(timedelta(seconds=20), gt=timedelta(0))
    largest_body: int = Field(1024 * 1024, gt=0, description="Of a request with a key, and of an answer, in bytes.")
    reap_every: Internal[timedelta] = Field(timedelta(minutes=1), gt=timedelta(0))
    reap_batch: Internal[int] = Field(5_000, gt=0)
    keep_history: timedelta = Field(timedelta(days=7 * 365 + 2), gt=timedelta(0))
    docs: Internal[str] = Field(
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


KeyMode = Literal["off", "optional", "counted", "required"]
"""off: the header is not looked at. optional: with a key it is protected. counted: the same, and those without one
are counted, to see when it may be required. required: without a key it is refused."""
OnFailure = Literal["rerun", "replay"]
"""What a 5xx of the work means: the next request with the key tries again, or gets the 5xx again."""

LONGEST_WINDOW = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Route:
    """What a route says about its requests: whether they need a key, and what becomes of them."""

    key: KeyMode = "required"
    effect: Effect = "local"
    on_failure: OnFailure = "rerun"
    replay_for: timedelta = timedelta(hours=24)
    """The answer is given again for so long after the first request."""
    gone_for: timedelta = timedelta(hours=24)
    """After that the key is refused for so long (410), then it is new."""
    attempts: int = 10
    """How often it is claimed before people are told."""
    fail_open: bool = False
    """Where the store is away: do the work without protection. Only for what may happen twice."""

    def __post_init__(self) -> None:
        windows = self.replay_for + self.gone_for
        if self.replay_for <= timedelta(0) or self.gone_for < timedelta(0) or windows > LONGEST_WINDOW:
            raise ConfigurationError(
                f"The windows of an idempotent route are {self.replay_for} and {self.gone_for}: the first must be more "
                f"than nothing, the second not less, and both together {LONGEST_WINDOW.days} days at most."
            )
        if self.attempts < 1:
            raise ConfigurationError("An idempotent route needs attempts=1 at least.")

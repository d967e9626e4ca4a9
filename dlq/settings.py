"""What the shop's dead-letter service is set to. All other settings are the engine's (docs/settings.md lists them)."""

from datetime import timedelta

from surefoot.audit.settings import AccessSettings
from surefoot.dlq.settings import DlqSettings


class ShopDlqSettings(DlqSettings):
    """A variable goes before each: SUREFOOT_DLQ_RETENTION=P30D, …"""

    # How long a letter can be replayed. A return may take weeks, and its events with it.
    retention: timedelta = timedelta(days=60)

    # How long a discard waits for a second person. The two who may approve one work in different time zones.
    approval_window: timedelta = timedelta(hours=12)

    # Where alerts go: many letters of one consumer, a job that paused itself. None in development. In production, set
    # SUREFOOT_DLQ_ALERT_WEBHOOK and SUREFOOT_DLQ_ALERT_SECRET, because both are secrets.
    alert_webhook: str | None = None


class ShopAccessSettings(AccessSettings):
    """Who gets in. A variable goes before each: SUREFOOT_DLQ_JWT_JWKS=https://…, …"""

    # People come with tokens of `surefoot dlq token create --person ana --role ADMIN`. With an identity provider, name
    # its keys, its audience and its issuer: all three, or no JWT is accepted.
    jwt_jwks: str | None = None
    jwt_audience: str | None = None
    jwt_issuer: str | None = None

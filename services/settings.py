"""Where the reference services keep their data, and how long what they promise lasts. Read once at the edge.

One database serves all of them, unless SUREFOOT_<SERVICE>_DATABASE points one elsewhere:

    settings = ServiceSettings()
    url = settings.database_of("payment")   # SUREFOOT_PAYMENT_DATABASE, else SUREFOOT_DATABASE
"""

from datetime import timedelta
from typing import Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError

Service = Literal[
    "checkout",
    "order",
    "payment",
    "provider",
    "ledger",
    "warehouse",
    "shipping",
    "returns",
    "notification",
    "flow",
]
SERVICES: tuple[Service, ...] = get_args(Service)


class ServiceSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_DATABASE, SUREFOOT_WAREHOUSE_DATABASE, SUREFOOT_CHECKOUT_HOLD, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_", frozen=True, extra="ignore")

    database: str | None = Field(None, description="The database of every service that has none of its own.")
    checkout_database: str | None = None
    order_database: str | None = None
    payment_database: str | None = None
    provider_database: str | None = None
    ledger_database: str | None = None
    warehouse_database: str | None = None
    shipping_database: str | None = None
    returns_database: str | None = None
    notification_database: str | None = None
    flow_database: str | None = None

    checkout_hold: timedelta = Field(
        timedelta(minutes=15),
        ge=timedelta(seconds=1),
        le=timedelta(days=1),
        description="How long goods are kept for a checkout session.",
    )
    warehouse_expiry_interval: timedelta = Field(
        timedelta(seconds=1), gt=timedelta(0), description="How often the warehouse looks for holds that have expired."
    )

    warehouse_damaged_percent: int = Field(
        20, ge=0, le=100, description="How many of a hundred returns the simulated inspection finds damaged."
    )
    warehouse_rejected_percent: int = Field(
        10, ge=0, le=100, description="How many of a hundred returns the simulated inspection does not accept."
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.warehouse_damaged_percent + self.warehouse_rejected_percent > 100:
            raise ValueError("warehouse_damaged_percent and warehouse_rejected_percent are more than 100 together")
        return self

    def database_of(self, service: Service) -> str:
        """The URL of the service's database."""
        own: str | None = getattr(self, f"{service}_database")
        url = own or self.database
        if not url:
            raise ConfigurationError(
                f"The {service} service has no database. Set SUREFOOT_DATABASE for all services, or "
                f"SUREFOOT_{service.upper()}_DATABASE for this one, to postgresql://user:password@host:5432/name."
            )
        return url

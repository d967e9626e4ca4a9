"""Where the reference services keep their data. Read once at the edge.

One database serves all of them, unless SUREFOOT_<SERVICE>_DATABASE points one elsewhere:

    settings = ServiceSettings()
    url = settings.database_of("payment")   # SUREFOOT_PAYMENT_DATABASE, else SUREFOOT_DATABASE
"""

from typing import Literal, get_args

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError
from surefoot.settings import Internal

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
    """Each can be set by the environment: SUREFOOT_DATABASE, SUREFOOT_WAREHOUSE_DATABASE, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_", frozen=True, extra="ignore")

    database: Internal[str | None] = Field(None, description="The database of every service that has none of its own.")
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

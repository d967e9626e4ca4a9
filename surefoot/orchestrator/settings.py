"""How an orchestrator runs. Read once at the edge, checked together."""

from datetime import timedelta

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.settings import Internal


class OrchestratorSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_ORCHESTRATOR_NAME=sagas, … How it reads its events is set as for
    any consumer: SUREFOOT_CONSUMER_…"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_ORCHESTRATOR_", frozen=True, extra="ignore")

    db_schema: Internal[str] = DEFAULT_SCHEMA
    name: str = Field(
        "orchestrator",
        description="The name of the group that all orchestrators of a database share. Those of another database on "
        "the same Kafka need another.",
    )
    timer_poll: Internal[timedelta] = Field(
        timedelta(milliseconds=250), description="How often due timers are looked for."
    )
    grace: Internal[timedelta] = Field(
        timedelta(seconds=5),
        description="Silence counts if everything flowed within this time after a timer was due; else its clock starts "
        "anew.",
    )
    longest_decision: Internal[timedelta] = Field(
        timedelta(seconds=10),
        description="The database ends a transaction of timers that takes longer: a frozen orchestrator keeps no saga "
        "from the others.",
    )
    history_retention: timedelta = Field(
        timedelta(days=90), description="How long ended sagas and their history are kept."
    )
    alert_webhook: str | None = Field(None, description="Gets a JSON POST for every alert.")
    housekeeping: Internal[timedelta] = Field(
        timedelta(seconds=30), description="How often old rows go and sagas are counted."
    )

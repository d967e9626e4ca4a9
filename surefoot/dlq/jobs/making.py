"""Making a job: its row and its items, in the order of the log, each with the id its control record will have."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import orjson
from uuid_utils import uuid7

from surefoot.consumer.controls import Action, Replacement
from surefoot.database.connection import Connection
from surefoot.dlq.errors import InvalidRequest
from surefoot.dlq.jobs.controls import lane_of
from surefoot.dlq.jobs.request import Letter
from surefoot.dlq.jobs.store import JobStatements

MAX_RATE = 100_000.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How a job goes on. Checked when it is made."""

    canary: int = 0
    """So many first; the rest if all of them went well."""
    rate: float | None = None
    """Control records a second, at most."""
    stop_on_error_rate: float | None = None
    """It pauses when more than this share of the answers are failures."""

    def __post_init__(self) -> None:
        if self.canary < 0:
            raise InvalidRequest(f"canary is {self.canary}: it is a number of dead letters, 0 for none.")
        if self.rate is not None and not (isfinite(self.rate) and 0 < self.rate <= MAX_RATE):
            raise InvalidRequest(f"rate is {self.rate}: it is a number a second, above 0 and up to {MAX_RATE:,.0f}.")
        share = self.stop_on_error_rate
        if share is not None and not 0 <= share <= 1:
            raise InvalidRequest(f"stop_on_error_rate is {share}: it is a share, between 0 and 1.")


@dataclass(frozen=True, slots=True)
class Order:
    """A job as it is asked for."""

    kind: Action
    by: str
    reason: str
    asked: dict[str, object]
    pace: Pace = Pace()
    approval_id: str | None = None
    replacement: Replacement | None = None


async def insert_job(
    connection: Connection, sql: JobStatements, job_id: str, order: Order, letters: Sequence[Letter]
) -> None:
    """`letters` in the order of the log."""
    await connection.execute(
        sql.make,
        job_id,
        order.kind,
        orjson.dumps(order.asked).decode(),
        order.reason,
        order.by,
        len(letters),
        order.pace.canary,
        order.pace.rate,
        order.pace.stop_on_error_rate,
        order.approval_id,
    )
    await connection.execute(
        sql.add_items,
        job_id,
        list(range(1, len(letters) + 1)),
        [letter.line.dlq_id for letter in letters],
        [lane_of(letter.line.consumer, letter.topic, letter.partition, letter.key) for letter in letters],
        [str(uuid7()) for _ in letters],
        None if order.replacement is None else order.replacement.model_dump_json(),
    )

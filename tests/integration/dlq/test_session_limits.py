"""Each kind of session of the dead-letter service lets go of its rows when its process freezes within a transaction."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from surefoot.database.connection import Connection, create_pool
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep.housekeeping import Housekeeping
from surefoot.telemetry.alerts import Alerts

LIMIT = DlqSettings(transaction_timeout=timedelta(seconds=7))
SHOW = "SELECT current_setting('idle_in_transaction_session_timeout')"


async def test_sessions_of_a_pool_have_the_limit(database_url: str) -> None:
    pool = await create_pool(database_url, name="test", size=1, idle_transaction_timeout=LIMIT.transaction_timeout)
    for _ in range(2):  # also when a session has been given back and taken again
        async with pool.acquire() as connection:
            assert await connection.fetchval(SHOW) == "7s"
    await pool.close()


async def test_housekeeping_has_the_limit_and_may_still_work_for_longer(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def look(self: Housekeeping, connection: Connection) -> None:
        seen.append(await connection.fetchval(SHOW))
        seen.append(await connection.fetchval("SELECT current_setting('transaction_timeout', true)"))

    monkeypatch.setattr(Housekeeping, "once", look)
    await Housekeeping(database_url, LIMIT, Alerts()).round()
    assert seen[0] == "7s"
    assert seen[1] in ("0", None)  # None before PostgreSQL 17, which has no such setting


@pytest.mark.parametrize("seconds", [0, 1, 3601])
def test_a_limit_that_no_batch_could_keep_or_that_never_ends_is_refused(seconds: int) -> None:
    with pytest.raises(ValidationError, match="transaction_timeout"):
        DlqSettings(transaction_timeout=timedelta(seconds=seconds))

"""Reads: each from one transaction that cannot write, and that ends when it takes too long."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from surefoot.database.connection import Connection, Pool
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.letters.looking import Looking

STATEMENT_TIMEOUT_S = 10
READ_ONLY = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'"""


async def _reading(request: Request) -> AsyncIterator[Connection]:
    pool: Pool = request.app.state.pool
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(READ_ONLY)
        yield connection


Reading = Annotated[Connection, Depends(_reading, scope="function")]


async def _looking(request: Request, connection: Reading) -> Looking:
    return Looking(connection, request.app.state.schema)


async def _jobs(request: Request, connection: Reading) -> Jobs:
    return Jobs(connection, request.app.state.schema, request.app.state.settings)


async def _approvals(request: Request, connection: Reading) -> Approvals:
    return Approvals(connection, request.app.state.schema, request.app.state.settings)


Look = Annotated[Looking, Depends(_looking, scope="function")]
LookAtJobs = Annotated[Jobs, Depends(_jobs, scope="function")]
LookAtApprovals = Annotated[Approvals, Depends(_approvals, scope="function")]

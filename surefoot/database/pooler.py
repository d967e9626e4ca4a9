"""Whether a pooler in transaction mode stands before the database.

Leases, advisory locks, LISTEN and settings belong to a session. A pooler in transaction mode gives each transaction
another session, so a process that needs one of its own says so when it starts.
"""

from contextlib import AsyncExitStack

from surefoot.database.address import shown_url
from surefoot.database.connection import PREPARED_ELSEWHERE, close_quietly, connect, explain, is_database_error
from surefoot.errors import ConfigurationError

TRIES = 3
_BACKEND = "SELECT pg_backend_pid()"


async def shares_sessions(url: str) -> bool:
    """Two connections that are open at once never have one backend, unless a pooler lends it to both in turn."""
    async with AsyncExitStack() as opened:
        connections = []
        for _ in range(2):
            connection = await connect(url, name="surefoot pooler")
            opened.push_async_callback(close_quietly, connection)
            connections.append(connection)
        try:
            for _ in range(TRIES):
                backends = [await one.fetchval(_BACKEND) for one in connections]
                if backends[0] == backends[1]:
                    return True
        except PREPARED_ELSEWHERE:  # a statement of one connection was met, or missed, by the other
            return True
        except Exception as error:
            if is_database_error(error):
                raise explain(error, url) from error
            raise
    return False


async def require_session(url: str) -> None:
    if await shares_sessions(url):
        raise ConfigurationError(
            f"A pooler in transaction mode stands before the database at {shown_url(url)}. This process needs sessions "
            "of its own, for leases, locks and notifications: give it the address of the server itself, or of a pool "
            "in session mode. Your services may go on publishing through this one."
        )

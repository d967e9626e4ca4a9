"""The transaction of one decision, and what is asked of whoever decides.

What is declined is undone and recorded, in a transaction of its own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dlq.audit import Act, Action, record
from dlq.errors import Declined, InvalidRequest, NotAllowed
from dlq.people import Person, Role
from surefoot.consumer.dead_letter import printable
from surefoot.database.connection import Connection
from surefoot.testing.failpoints import failpoint

MAX_REASON = 2000


@asynccontextmanager
async def decision(
    connection: Connection, schema: str, person: Person, action: Action, about: str
) -> AsyncIterator[None]:
    """Run a verb of `Jobs` or `Approvals` in here: it records what it did; this records what it declined to do."""
    try:
        async with connection.transaction():
            yield
    except Declined as declined:
        async with connection.transaction():
            await record(connection, schema, Act(person.name, action, "refused", about, str(declined)))
        raise
    await failpoint("dlq.job.created")


def require(person: Person, role: Role) -> None:
    if not person.may(role):
        raise NotAllowed(f"{person.name} is {person.role}, and this takes {role}: ask somebody who is.")


def reason_of(text: str) -> str:
    """Why somebody decides something, as it is kept: it has to be there, and it has to fit."""
    reason = printable(text.strip(), MAX_REASON + 1)
    if not reason:
        raise InvalidRequest("There is no reason given: say why, in a sentence that others will understand later.")
    if len(reason) > MAX_REASON:
        raise InvalidRequest(f"The reason is longer than {MAX_REASON} characters: make it shorter.")
    return reason

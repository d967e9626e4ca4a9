"""A dead-letter service with one protection taken out, to show that the crash tests would notice.

Each function below undoes one protection of the real service, as a plausible mistake would, and nothing else.
"""

from collections.abc import Callable

from surefoot.cli.main import main as main
from surefoot.dlq.jobs.sender import SenderStatements, Turns
from surefoot.dlq.jobs.store import JobStatements
from tests.support.weakened.statements import change_statement


def lanes() -> None:
    """Whatever is pending goes out, also while an earlier event of its key is under way."""
    change_statement(SenderStatements, "next_of_lanes", "DISTINCT ON (lane)", "")


def same_id() -> None:
    """What is sent again has a new id, as a client that makes one for each record does it."""
    change_statement(
        SenderStatements,
        "mark",
        "sends = sends + 1",
        "sends = sends + 1, control_id = CASE WHEN sends > 0 THEN gen_random_uuid() ELSE control_id END",
    )


def marked_first() -> None:
    """Nothing says that it is about to be sent."""
    change_statement(SenderStatements, "mark", "state = 'SENT'", "state = state")
    change_statement(SenderStatements, "marked", " AND i.state = 'SENT'", "")


def second_look() -> None:
    """Nobody looks again whether the set is still the one that was approved."""

    async def believe(*_: object) -> bool:
        return True

    Turns._is_as_approved = believe  # type: ignore[assignment,method-assign]


def waits_for_answers() -> None:
    """A cancel opens everything at once, also what was sent and not answered yet."""
    change_statement(JobStatements, "cancel_items", "state = 'PENDING'", "state IN ('PENDING', 'SENT')")


PROTECTIONS: dict[str, Callable[[], None]] = {
    "lanes": lanes,
    "same_id": same_id,
    "marked_first": marked_first,
    "second_look": second_look,
    "waits_for_answers": waits_for_answers,
}

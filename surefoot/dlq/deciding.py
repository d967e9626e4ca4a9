"""What is asked of whoever decides about dead letters: the role for it, and a reason."""

from surefoot.audit.people import Person, Role
from surefoot.dlq.errors import InvalidRequest, NotAllowed
from surefoot.events.text import printable

MAX_REASON = 2000


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

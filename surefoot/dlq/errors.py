"""What the dead-letter room declines to do, each with a sentence: what is wrong, and what to do about it.

A verb (of `Jobs`, of `Approvals`) runs in its caller's transaction and raises one of these: then nothing of it is
done. That it was tried is recorded by the caller, in a transaction of its own.
"""

from surefoot.errors import SurefootError


class Declined(SurefootError):
    """What was asked of the dead letters is not done."""


class NoSuchLetter(Declined):
    """There is no such dead letter."""

    def __init__(self, dlq_id: object) -> None:
        super().__init__(f"There is no dead letter {dlq_id}: look at the id. Those settled long ago are removed.")


class NoSuchJob(Declined):
    """There is no such job."""

    def __init__(self, job_id: object) -> None:
        super().__init__(f"There is no job {job_id}: look at the id.")


class NoSuchApproval(Declined):
    """There is no such approval."""

    def __init__(self, approval_id: object) -> None:
        super().__init__(f"There is no request {approval_id} that waits for approval or did: look at the id.")


class NothingToDo(Declined):
    """None of what was asked for is open: somebody decided about it before, or there is none. Look again."""


class TooMany(Declined):
    """More events were asked for than one job takes: ask for fewer."""


class TooManyJobs(Declined):
    """The person has as many jobs under way as one may have: wait for one to end, or cancel it."""


class WrongState(Declined):
    """It is not in a state in which this can be done: somebody was first. Look again."""


class NotAllowed(Declined):
    """The person's role does not allow this."""


class OwnApproval(Declined):
    """A discard is approved by somebody else than who asked for it."""


class TooLate(Declined):
    """The time in which it could be approved is over: ask for the discard again."""


class SetChanged(Declined):
    """The dead letters are no longer those that were approved: look again, and ask for the discard again."""


class InvalidEdit(Declined):
    """The edited event cannot take the old one's place."""


class InvalidRequest(Declined):
    """A value that was given cannot be used."""

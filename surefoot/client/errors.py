"""How a call can end without an answer that lasts."""

from surefoot.client.answer import Answer
from surefoot.errors import SurefootError


class GaveUp(SurefootError):
    """No answer that lasts within the client's patience. Whether the call took effect is not known.

    Asking again later with the same key is safe: `client.post(…, key=error.key)`.
    """

    def __init__(self, message: str, *, key: str | None, answer: Answer | None, attempts: int) -> None:
        super().__init__(message)
        self.key = key
        self.answer = answer
        """The last one there was; None if the server never answered."""
        self.attempts = attempts

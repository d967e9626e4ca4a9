"""Every error Surefoot raises on purpose.

One root, so that a caller can catch ours and nothing else. Each message says what happened, why, and what to do about
it: commands print it as it is, without a traceback.
"""


class SurefootError(Exception):
    """Something Surefoot was asked to do cannot be done."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class ConfigurationError(SurefootError):
    """A setting is missing or contradicts another."""


class UndeclaredEvent(SurefootError):
    """The event's type was never declared, so nobody knows its topic, key or shape."""


class InvalidEvent(SurefootError):
    """The event does not fit the type it was declared with."""


class EventTooLarge(InvalidEvent):
    """The event is larger than its topic takes."""


class FloatMoney(InvalidEvent, TypeError):
    """An amount of money was given as a float, which cannot hold cents exactly."""


class DatabaseUnavailable(SurefootError):
    """The database cannot be reached."""


class DatabaseRefused(SurefootError):
    """The database answers, and refuses: a right is missing, or a table was changed."""


class SchemaOutdated(SurefootError):
    """The database has not been migrated to what this version needs: run `surefoot migrate`."""


class LogUnavailable(SurefootError):
    """The event log (Kafka, or the Postgres log) cannot be reached."""


class LeaseLost(SurefootError):
    """Somebody else owns this shard or partition now; what was written under the old fence was refused."""


class HandlerMisuse(SurefootError):
    """A handler did something with its transaction that would hurt others in the same batch."""


def words_of(error: BaseException) -> str:
    """What an error says of itself, also if saying it fails: whoever reports somebody else's must not die of it."""
    try:
        return str(error)
    except Exception as trouble:
        return f"{type(error).__qualname__}, which cannot be printed: its __str__ raises {type(trouble).__name__}."

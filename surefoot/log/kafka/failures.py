"""What an error from Kafka means: the record's own fault, a lost place in the group, or Kafka out of reach. Pure.

A wrong answer here is expensive: calling an outage the record's fault burns an innocent event's attempts, and calling a
bad record an outage stops its partition for ever.
"""

from collections.abc import Mapping

from surefoot.errors import LogUnavailable
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Refusal

# Kafka's numbered error codes (they are part of its protocol; aiokafka's errors carry them as `errno`).
_RECORDS_FAULT: dict[int, Refusal] = {
    2: "rejected",  # CORRUPT_MESSAGE: also a null key on a compacted topic, from older brokers
    10: "too_large",  # MESSAGE_TOO_LARGE
    17: "unknown_topic",  # INVALID_TOPIC_EXCEPTION: no topic can have this name
    18: "too_large",  # RECORD_LIST_TOO_LARGE
    32: "rejected",  # INVALID_TIMESTAMP
    43: "rejected",  # UNSUPPORTED_FOR_MESSAGE_FORMAT
    44: "rejected",  # POLICY_VIOLATION
    87: "rejected",  # INVALID_RECORD
}
NO_SUCH_TOPIC = frozenset({3, 17})
"""UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION. Every other code leaves open whether the topic exists."""
LEADER_MOVED = frozenset({3, 5, 6})
"""From a partition's leader: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER: it is another, or soon."""
_TOPIC_NOT_ALLOWED = 29  # TOPIC_AUTHORIZATION_FAILED
_NOT_ALLOWED = {_TOPIC_NOT_ALLOWED, 30, 31, 53, 58}  # topic, group, cluster, transactional id, SASL
_SEQUENCE = {45, 47, 59}  # OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID


class TopicNotReady(LogUnavailable):
    """Kafka cannot describe the topic just now."""


def refusal_of(error: BaseException) -> Refusal | None:
    """Why the broker will never take this record; None if it is not the record's fault."""
    return _RECORDS_FAULT.get(_code(error))


def is_transient(error: BaseException) -> bool:
    return bool(getattr(error, "retriable", False))


def unavailable(error: BaseException, settings: KafkaSettings, doing: str) -> LogUnavailable:
    where = settings.bootstrap_servers
    code = _code(error)
    if isinstance(error, TimeoutError):
        seconds = settings.request_timeout.total_seconds()
        return LogUnavailable(
            f"Kafka at {where} did not answer within {seconds:g} s while {doing}. Is it running, and within reach?"
        )
    if code in _NOT_ALLOWED:
        return LogUnavailable(
            f"Kafka at {where} does not allow it to user {settings.sasl_username or 'ANONYMOUS'} while {doing} "
            f"({said(error)}). Check its access rules and the SASL settings."
        )
    if code in _SEQUENCE:
        return LogUnavailable(
            f"Kafka at {where} lost count of what this producer sent while {doing} ({said(error)}). "
            "A new producer was made: send again."
        )
    return LogUnavailable(
        f"Kafka at {where} cannot be used while {doing}: {said(error)}. Is it running and the address right?"
    )


def topics_unusable(codes: Mapping[str, int], settings: KafkaSettings) -> LogUnavailable:
    """What the brokers' answer about topics means, for the topics that were answered with one of these error codes."""
    where = settings.bootstrap_servers
    hidden = sorted(name for name, code in codes.items() if code == _TOPIC_NOT_ALLOWED)
    if hidden:
        user = settings.sasl_username or "ANONYMOUS"
        return LogUnavailable(
            f"Kafka at {where} does not allow it to user {user} while asking about topics: the right Describe is "
            f"missing on {', '.join(hidden)}. Grant User:{user} Describe on it; Write, to publish, and Read, to read, "
            "include it."
        )
    answers = ", ".join(f"{name} (error {code})" for name, code in sorted(codes.items()))
    return TopicNotReady(
        f"Kafka at {where} cannot describe {answers} just now. Error 5, no leader, passes by itself in a moment; "
        "if it stays, look at the brokers."
    )


def said(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def _code(error: BaseException) -> int:
    code = getattr(error, "errno", None)
    # An OSError's errno is the operating system's, another numbering altogether.
    return code if isinstance(code, int) and not isinstance(error, OSError) else 0

"""Whose fault it is: the record's, or not. Every code that Kafka answers a produce request with, by hand."""

from aiokafka import errors

from surefoot.log.kafka.aiokafka_typed import InvalidRecord
from surefoot.log.kafka.failures import refusal_of, unavailable
from surefoot.log.kafka.settings import KafkaSettings
from tests.support.corpus import each_of

SETTINGS = KafkaSettings(bootstrap_servers="broker:9092")


@each_of(
    ("error", "reason"),
    [
        (errors.MessageSizeTooLargeError(), "too_large"),
        (errors.RecordListTooLargeError(), "too_large"),
        (errors.CorruptRecordException(), "rejected"),
        (errors.InvalidTimestampError(), "rejected"),
        (errors.PolicyViolationError(), "rejected"),
        (errors.InvalidTopicError(), "unknown_topic"),
        (InvalidRecord(), "rejected"),
    ],
)
def test_these_are_the_records_own_fault(error: Exception, reason: str) -> None:
    assert refusal_of(error) == reason


@each_of(
    "error",
    [
        errors.KafkaConnectionError(),
        errors.KafkaTimeoutError(),
        errors.RequestTimedOutError(),
        errors.NotLeaderForPartitionError(),
        errors.LeaderNotAvailableError(),
        errors.NotEnoughReplicasError(),
        errors.KafkaStorageError(),
        errors.OutOfOrderSequenceNumber(),
        errors.UnknownProducerId(),
        errors.TopicAuthorizationFailedError("things"),
        errors.ClusterAuthorizationFailedError(),
        errors.UnknownError(),
        OSError(10, "an operating system's 10 is not Kafka's 10"),
        TimeoutError(),
    ],
)
def test_these_are_not(error: Exception) -> None:
    assert refusal_of(error) is None
    assert "broker:9092" in str(unavailable(error, SETTINGS, "sending to things"))


def test_aiokafka_knows_the_code_it_had_no_name_for() -> None:
    assert errors.for_code(87) is InvalidRecord


def test_a_lack_of_rights_says_so() -> None:
    said = str(unavailable(errors.TopicAuthorizationFailedError("things"), SETTINGS, "sending to things"))

    assert "does not allow" in said
    assert "access rules" in said

"""A topic and its dead-letter topic, as contracts: name, partitions, how long and how large.

They are declared in a catalogue, so that `surefoot topics create|check` can hold the broker to them. Everything Kafka
would refuse later (a bad name, no partitions) is refused here, where the mistake was made.
"""

import re
from dataclasses import dataclass
from datetime import timedelta

from surefoot.errors import ConfigurationError

DEAD_LETTER_SUFFIX = ".dlq"
MAX_TOPIC_NAME = 249
MIN_DEAD_LETTER_RETENTION = timedelta(days=30)
MIB = 1024 * 1024

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Topic:
    """Its partitions are fixed once there is data: changing them would split a key between owners."""

    name: str
    partitions: int = 8
    retention: timedelta = timedelta(days=7)
    max_record_bytes: int = MIB

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.partitions < 1:
            raise ConfigurationError(f"Topic {self.name} has {self.partitions} partitions: it needs at least one.")
        if self.retention <= timedelta(0):
            raise ConfigurationError(
                f"Topic {self.name} keeps records for {self.retention}, so none would stay: give a time above zero."
            )
        if self.max_record_bytes < 1:
            raise ConfigurationError(
                f"Topic {self.name} takes records of {self.max_record_bytes} bytes: give a size above zero."
            )

    @property
    def dead_letters(self) -> "Topic":
        """Where its dead events go: twice the size, because a dead letter carries the event and its diagnosis."""
        return Topic(
            name=self.name + DEAD_LETTER_SUFFIX,
            partitions=self.partitions,
            retention=max(MIN_DEAD_LETTER_RETENTION, self.retention),
            max_record_bytes=2 * self.max_record_bytes,
        )


def check_declared(topic: Topic) -> None:
    """Refuse a name that leaves no room for, or looks like, a dead-letter topic."""
    if topic.name.endswith(DEAD_LETTER_SUFFIX):
        raise ConfigurationError(
            f"Topic {topic.name} ends in {DEAD_LETTER_SUFFIX}, which is kept for dead letters: "
            "declare the topic itself, its dead-letter topic comes with it."
        )
    if len(topic.name) + len(DEAD_LETTER_SUFFIX) > MAX_TOPIC_NAME:
        raise ConfigurationError(
            f"Topic {topic.name} has a name of {len(topic.name)} characters, and Kafka takes {MAX_TOPIC_NAME}: leave "
            f"{len(DEAD_LETTER_SUFFIX)} of them for the name of its dead-letter topic."
        )


def collide(one: str, other: str) -> bool:
    """Whether Kafka refuses to have both: its metric names cannot tell a dot from an underscore."""
    return one != other and one.replace(".", "_") == other.replace(".", "_")


def _check_name(name: str) -> None:
    if name in (".", "..") or not _NAME.fullmatch(name) or len(name) > MAX_TOPIC_NAME:
        raise ConfigurationError(
            f"{name!r} is no name for a topic: Kafka takes 1 to {MAX_TOPIC_NAME} letters, digits, dots, underscores "
            "and hyphens, and neither '.' nor '..'."
        )

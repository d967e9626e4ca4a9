"""Where dead letters are: every topic of the log that is named as one for them."""

from surefoot.consumer.contracts import dlq_outcomes
from surefoot.log.port import EventLog

SUFFIX = ".dlq"


async def dead_letter_topics(log: EventLog) -> frozenset[str]:
    return frozenset(name for name in await log.topics() if name.endswith(SUFFIX))


async def outcome_topics(log: EventLog) -> frozenset[str]:
    """The one that consumers answer on, if it is there yet."""
    return frozenset(await log.describe([dlq_outcomes.name]))

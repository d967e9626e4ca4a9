"""Whether a topic is as the catalogue wants it. Pure."""

from surefoot.log.port import TopicSpec


def compare(wanted: TopicSpec, found: TopicSpec | None) -> list[str]:
    """Sentences that say what is wrong and what to do; none if all is well."""
    if found is None:
        return [f"The topic {wanted.name} does not exist. Run: surefoot topics create"]
    problems = []
    if found.partitions != wanted.partitions:
        problems.append(
            f"The topic {wanted.name} has {found.partitions} partitions, the catalogue says {wanted.partitions}. "
            "The number is fixed once there is data, because changing it moves keys to other partitions and breaks "
            f"their order: declare {found.partitions}, or make a new topic."
        )
    if found.retention != wanted.retention:
        problems.append(
            f"The topic {wanted.name} keeps records {found.retention}, the catalogue says {wanted.retention}. "
            "Set retention.ms on the topic, or change the declaration."
        )
    if found.max_record_bytes < wanted.max_record_bytes:
        problems.append(
            f"The topic {wanted.name} takes records up to {found.max_record_bytes:,} bytes, the catalogue promises "
            f"{wanted.max_record_bytes:,}: larger events would be FAILED by the relay. "
            "Raise max.message.bytes on the topic."
        )
    return problems

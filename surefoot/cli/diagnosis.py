"""What `surefoot doctor` makes of the facts it gathered. Pure, so that each finding can be tested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from surefoot.database.version import TablesVersion
    from surefoot.log.port import TopicSpec

OLDEST_POSTGRES = 15
CLOCK_TOLERANCE = timedelta(seconds=2)
OLD_ROW = timedelta(minutes=1)
Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    sentence: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class OutboxFacts:
    """As read from the database in one go."""

    postgres_version: int
    clock_difference: timedelta
    shards: int
    relays: int
    unowned_shards: int
    oldest_pending: timedelta | None
    failed: int
    """FAILED rows, counted up to a limit."""
    open_letters: int = 0
    """Dead letters that wait for a decision, if their service keeps them in this database."""


def check_version(found: "TablesVersion", program: str) -> Finding:
    from surefoot.database.version import misfit

    wrong = misfit(found, program)
    if wrong is not None:
        what, advice = wrong
        return Finding("error", f"The {'database' if found.version is None else 'schema'} {what}.", advice)
    if found.version == program:
        return Finding("ok", f"The schema is at version {program}.")
    return Finding("ok", f"The schema is at version {found.version}, which takes programs of version {program} too.")


def check_sessions(shared: bool) -> list[Finding]:
    if not shared:
        return []
    return [
        Finding(
            "warning",
            "A pooler in transaction mode stands before the database.",
            "Relays, consumers, orchestrators and the dead-letter service need the address of the server itself, or of "
            "a pool in session mode.",
        )
    ]


def check_outbox(facts: OutboxFacts) -> list[Finding]:
    findings = [_postgres(facts), _clock(facts), _relays(facts), _oldest(facts), _failed(facts)]
    return [*findings, _letters(facts)] if facts.open_letters else findings


def check_topics(wanted: "Sequence[TopicSpec]", found: "Mapping[str, TopicSpec]") -> list[Finding]:
    from surefoot.log.topics import compare

    problems = [problem for spec in wanted for problem in compare(spec, found.get(spec.name))]
    if not problems:
        return [Finding("ok", f"All {len(wanted)} topics are there as the catalogue declares them.")]
    return [Finding("error", problem) for problem in problems]


def _postgres(facts: OutboxFacts) -> Finding:
    if facts.postgres_version >= OLDEST_POSTGRES:
        return Finding("ok", f"PostgreSQL {facts.postgres_version} answers.")
    return Finding(
        "error", f"PostgreSQL {facts.postgres_version} is too old.", f"Surefoot needs {OLDEST_POSTGRES} or newer."
    )


def _clock(facts: OutboxFacts) -> Finding:
    off = abs(facts.clock_difference)
    if off <= CLOCK_TOLERANCE:
        return Finding("ok", "This machine's clock and the database's agree.")
    return Finding(
        "warning",
        f"This machine's clock is {off.total_seconds():.1f} s off the database's.",
        "Leases run on the database's clock and are safe; times in events and logs are not. Set up NTP.",
    )


def _relays(facts: OutboxFacts) -> Finding:
    if facts.relays == 0:
        return Finding(
            "warning", "No relay is running: events wait in the outbox.", "Start one: surefoot relay --database …"
        )
    if facts.unowned_shards:
        return Finding(
            "warning",
            f"{facts.relays} relay(s) run, but {facts.unowned_shards} of {facts.shards} shards have no owner just now.",
            "A relay that died frees its shards within its lease; look again in some seconds.",
        )
    return Finding("ok", f"{facts.relays} relay(s) own all {facts.shards} shards.")


def _oldest(facts: OutboxFacts) -> Finding:
    if facts.oldest_pending is None:
        return Finding("ok", "Nothing waits in the outbox.")
    waited = str(timedelta(seconds=round(facts.oldest_pending.total_seconds())))
    if facts.oldest_pending < OLD_ROW:
        return Finding("ok", f"The oldest unpublished event has waited {waited}.")
    return Finding(
        "warning",
        f"The oldest unpublished event has waited {waited}.",
        "See `surefoot outbox list` and the relays' logs.",
    )


def _failed(facts: OutboxFacts) -> Finding:
    if facts.failed == 0:
        return Finding("ok", "No outbox event is FAILED.")
    return Finding(
        "error",
        f"{facts.failed} outbox event(s) are FAILED, and their keys are held.",
        "See why: surefoot outbox list. Then retry or release them.",
    )


def _letters(facts: OutboxFacts) -> Finding:
    return Finding(
        "warning",
        f"{facts.open_letters} dead letter(s) are open: somebody has to decide about them.",
        "See what is broken: surefoot dlq groups --status OPEN.",
    )

"""From measured rounds to a verdict. Pure.

Each round measures both trees one after the other, so a ratio within a round is free of the machine's own speed. The
verdict looks at all of these ratios: one round alone may be disturbed by other work on the machine.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

ALLOWED = 1.03
"""A ratio up to this counts as no slower: differences below it are lost in the noise of a small machine."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one unit of work cost in one tree."""

    processor_us: float
    statements: float


@dataclass(frozen=True, slots=True)
class Round:
    """Both trees, measured at the same time."""

    base: Cost
    tree: Cost


@dataclass(frozen=True, slots=True)
class Ratio:
    """Working tree / base: the median of the rounds, the lowest and the highest of them."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Verdict:
    processor: Ratio
    statements: Ratio
    reasons: tuple[str, ...]
    """Why the path counts as slower; empty if it does not."""

    @property
    def is_slower(self) -> bool:
        return bool(self.reasons)


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of (base, tree) pairs. The base must have cost something."""
    found = [tree / base for base, tree in pairs]
    return Ratio(statistics.median(found), min(found), max(found))


def judge(rounds: Sequence[Round]) -> Verdict:
    """Processor time is noisy: slower only if every round says so. Statements are nearly exact: the median decides."""
    processor = ratio([(one.base.processor_us, one.tree.processor_us) for one in rounds])
    statements = ratio([(one.base.statements, one.tree.statements) for one in rounds])
    reasons = []
    if processor.low > ALLOWED:
        reasons.append(f"{processor.median - 1:.0%} more processor time")
    if statements.median > ALLOWED:
        reasons.append(f"{statements.median - 1:.0%} more statements")
    return Verdict(processor, statements, tuple(reasons))

"""From measured rounds to a verdict. Pure.

Each round measures both trees one after the other, so a ratio within a round is free of the machine's own speed. The
verdict looks at all of these ratios: one round alone may be disturbed by other work on the machine.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

ALLOWED = 1.03
"""A ratio up to this counts as no slower: differences below it are lost in the noise of a small machine."""
CONFIDENCE = 0.95


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
    """Working tree / base: the median of the rounds, and the range in which it lies with 95% confidence."""

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

    @property
    def visible_from(self) -> float:
        """About the smallest slowdown that would have been found with this noise, as a share: 0.08 is 8%."""
        return ALLOWED * self.processor.median / self.processor.low - 1


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of (base, tree) pairs. The base must have cost something."""
    found = sorted(tree / base for base, tree in pairs)
    outside = disregarded(len(found))
    return Ratio(statistics.median(found), found[outside], found[-1 - outside])


def disregarded(rounds: int) -> int:
    """How many rounds at each end the range leaves out: as many as keep the confidence. One, of ten rounds.

    A round is above the true median as often as below it, so the number of rounds below it is that of heads among as
    many coins. Nothing else is assumed of the noise. It takes six rounds to be confident at all."""
    left_out, tail = 0, 0.5**rounds
    while True:
        tail += math.comb(rounds, left_out + 1) * 0.5**rounds
        if 1 - 2 * tail < CONFIDENCE:
            return left_out
        left_out += 1


def judge(rounds: Sequence[Round]) -> Verdict:
    """Processor time is noisy: all of its range must be above. Statements are nearly exact: the median decides."""
    processor = ratio([(one.base.processor_us, one.tree.processor_us) for one in rounds])
    statements = ratio([(one.base.statements, one.tree.statements) for one in rounds])
    reasons = []
    if processor.low > ALLOWED:
        reasons.append(f"{processor.median - 1:.0%} more processor time")
    if statements.median > ALLOWED:
        reasons.append(f"{statements.median - 1:.0%} more statements")
    return Verdict(processor, statements, tuple(reasons))

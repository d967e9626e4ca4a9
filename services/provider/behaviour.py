"""How the provider misbehaves, as rules over the order and the key of a request. Pure.

A rule applies a number of times to each key and is spent then, so that a caller who tries again gets through. The
exception is a decline, which is an answer: the provider remembers it under the key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, assert_never

from surefoot.errors import ConfigurationError

Operation = Literal["charge", "void", "refund"]
Behaviour = Literal["decline", "timeout_after", "late", "error_before", "error_after"]
"""decline: no money is taken. timeout_after: it does what it was asked and never answers. late: it answers after
`delay_ms`. error_before, error_after: it answers 500, having done nothing or all of it."""
DeclineReason = Literal["declined", "insufficient_funds", "expired_card", "suspected_fraud"]

EVERY_OPERATION: tuple[Operation, ...] = ("charge", "void", "refund")
DECLINES: tuple[DeclineReason, ...] = ("declined", "insufficient_funds", "expired_card", "suspected_fraud")
LATE_MS = 1_500


@dataclass(frozen=True, slots=True)
class OfOrder:
    order_id: str


@dataclass(frozen=True, slots=True)
class OfKey:
    key: str


@dataclass(frozen=True, slots=True)
class OfShare:
    """The orders whose hash lies from `low` up to, and without, `high`: always the same ones."""

    low: float
    high: float


Match = OfOrder | OfKey | OfShare


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    """What its uses are counted under; it stays the same when the provider is started again."""
    match: Match
    behaviour: Behaviour
    operations: tuple[Operation, ...] = ("charge",)
    times: int = 1
    """How often, for each key."""
    delay_ms: int = LATE_MS
    reason: DeclineReason | None = None

    def applies(self, operation: Operation, order_id: str | None, key: str) -> bool:
        if operation not in self.operations:
            return False
        match self.match:
            case OfOrder(wanted):
                return order_id == wanted
            case OfKey(wanted):
                return key == wanted
            case OfShare(low, high):
                return order_id is not None and low <= place_of(order_id) < high
            case _:
                assert_never(self.match)

    def decline_of(self, order_id: str) -> DeclineReason:
        """The reason it was given, or one that depends on the order alone."""
        return self.reason or DECLINES[_number(order_id, "reason") % len(DECLINES)]


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of all orders has which trouble. No order has two of them."""

    decline: float = 0.0
    timeout_after: float = 0.0
    late: float = 0.0
    error: float = 0.0
    """One half before, one half after the work."""
    late_ms: int = LATE_MS

    def rules(self) -> list[Rule]:
        wanted: list[tuple[Behaviour, float]] = [
            ("decline", self.decline),
            ("timeout_after", self.timeout_after),
            ("late", self.late),
            ("error_before", self.error / 2),
            ("error_after", self.error / 2),
        ]
        if any(share < 0 for _, share in wanted) or sum(share for _, share in wanted) > 1 + 1e-9:
            raise ConfigurationError(
                "The shares of declines, timeouts, late answers and errors must be from 0 to 1 and add up to 1 at "
                "most: an order has one trouble, or none."
            )
        rules, low = [], 0.0
        for behaviour, share in wanted:
            if share:
                operations = ("charge",) if behaviour == "decline" else EVERY_OPERATION
                match = OfShare(low, low + share)
                rules.append(Rule(f"share:{behaviour}", match, behaviour, operations, delay_ms=self.late_ms))
            low += share
        return rules


def applying(rules: Sequence[Rule], operation: Operation, order_id: str | None, key: str) -> list[Rule]:
    """The rules for this request; the first that is not spent decides."""
    return [rule for rule in rules if rule.applies(operation, order_id, key)]


def place_of(order_id: str) -> float:
    """From 0 up to, and without, 1; the same on every machine and in every run."""
    return _number(order_id, "share") / 2**53


def _number(order_id: str, salt: str) -> int:
    return int.from_bytes(sha256(f"{salt}:{order_id}".encode()).digest()[:8], "big") >> 11

"""What a checker finds: which rule is broken, in a word of the checker's own, and how, in a sentence."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Violation = TypeVar("Violation", bound=str)


@dataclass(frozen=True, slots=True)
class Finding(Generic[Violation]):
    violation: Violation
    sentence: str

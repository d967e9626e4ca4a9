"""What is promised of a key, over what was seen of it from outside, and of the provider, whose books are read for it.
To be asked when nothing is under way.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal

from surefoot.idempotency.values import Answer

Said = Literal["charged", "declined", "nothing"]


class Provider:
    """Works once for each key it is called with, and may keep to itself what it did."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.books: dict[str, Said] = {}
        """What it decided, for each key."""

    def call(self, key: str) -> Said:
        """Its answer; "nothing" if it was not heard, whether or not it did something."""
        arrives = self._chance.random() < 0.9
        if arrives and key not in self.books:
            self.books[key] = "declined" if self._chance.random() < 0.15 else "charged"
        answers = arrives and self._chance.random() < 0.8
        return self.books[key] if answers else "nothing"

    def charges(self, keys: set[str]) -> int:
        return sum(self.books.get(key) == "charged" for key in keys)


@dataclass
class Seen:
    """By the lives of the key, from one on."""

    answers: list[tuple[int, bytes, Answer]] = field(default_factory=list)
    """Those that clients got, with what they had asked for."""
    local_effects: Counter[int] = field(default_factory=Counter)
    provider_keys: dict[int, set[str]] = field(default_factory=dict)
    """What the provider was called under."""


def broken(seen: Seen, provider: Provider) -> list[str]:
    return [*_keys(seen), *_effects(seen, provider), *_answers(seen)]


def _keys(seen: Seen) -> list[str]:
    return [f"life {life}: called under {sorted(keys)}" for life, keys in seen.provider_keys.items() if len(keys) > 1]


def _effects(seen: Seen, provider: Provider) -> list[str]:
    outside = {life: provider.charges(keys) for life, keys in seen.provider_keys.items()}
    return [
        f"life {life}: {times} effects" for life, times in [*outside.items(), *seen.local_effects.items()] if times > 1
    ]


def _answers(seen: Seen) -> list[str]:
    """In one life there is one answer, and it is given to those alone who ask for the same."""
    found: dict[int, set[tuple[bytes, Answer]]] = defaultdict(set)
    for life, asks, answer in seen.answers:
        found[life].add((asks, answer))
    return [f"life {life}: {answers}" for life, answers in found.items() if len(answers) > 1]

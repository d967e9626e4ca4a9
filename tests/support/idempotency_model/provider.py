"""A provider that works once for each key it is called with, and may keep to itself what it did."""

import random
from typing import Literal

Said = Literal["charged", "declined", "nothing"]


class Provider:
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

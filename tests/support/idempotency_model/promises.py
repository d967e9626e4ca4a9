"""What is promised of a key, over what was seen of it from outside. Pure; to be asked when nothing is under way."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from surefoot.idempotency.values import Answer
from tests.support.idempotency_model.provider import Provider


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

"""Sagas named on a command line, or by the environment."""

import os
from collections.abc import Iterable, Sequence

from surefoot.cli.loading import load
from surefoot.errors import ConfigurationError
from surefoot.saga import Saga

VARIABLE = "SUREFOOT_SAGAS"
OURS = "orchestrator.sagas:sagas"


def load_sagas(names: Sequence[str] | None) -> list[Saga]:
    """Those named; else those that SUREFOOT_SAGAS names, with commas between; else the platform's own."""
    named = list(names or ()) or [one.strip() for one in os.environ.get(VARIABLE, OURS).split(",") if one.strip()]
    return [saga for name in named for saga in _sagas(name)]


def _sagas(name: str) -> Iterable[Saga]:
    found = load(name)
    several: Sequence[object] = found if isinstance(found, list | tuple) else [found]
    sagas = [one for one in several if isinstance(one, Saga)]
    if len(sagas) != len(several) or not sagas:
        raise ConfigurationError(
            f"{name} is a {type(found).__name__} and no Saga: name the object that steps are declared with, or a list "
            "of such."
        )
    return sagas

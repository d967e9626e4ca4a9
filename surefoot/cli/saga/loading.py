"""Sagas named on a command line, by the environment, or by the project file."""

import os
from collections.abc import Iterable, Sequence

from surefoot.cli.loading import load
from surefoot.cli.project import find_project
from surefoot.errors import ConfigurationError
from surefoot.saga import Saga

VARIABLE = "SUREFOOT_SAGAS"


def load_sagas(names: Sequence[str] | None) -> list[Saga]:
    """Those named; else those that SUREFOOT_SAGAS names, with commas between; else those of the project file."""
    of_environment = [one.strip() for one in os.environ.get(VARIABLE, "").split(",") if one.strip()]
    named = list(names or ()) or of_environment or find_project().sagas
    if not named:
        raise ConfigurationError(
            "No saga was named, and no project file names one. Give package.module:saga, set SUREFOOT_SAGAS, or add "
            'sagas = ["package.module:saga"] to [tool.surefoot] in pyproject.toml.'
        )
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

"""Finding what a command line or a project file names, `package.module:attribute`, in the user's own code.

The current directory and the directory of the project file are put on the path, as `python -m` does. Each mistake is
answered with a sentence.
"""

import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.cli.project import find_project
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.events import Catalogue
    from surefoot.saga import Definition, Saga

SAGAS_VARIABLE = "SUREFOOT_SAGAS"
_REFERENCE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def load(reference: str) -> object:
    """The object that `package.module:attribute` names."""
    matched = _REFERENCE.fullmatch(reference)
    if matched is None:
        raise ConfigurationError(
            f"{reference!r} names nothing that can be loaded: say package.module:attribute, with one colon between the "
            "module and the name in it, such as shop.events:catalogue."
        )
    module, attribute = matched.groups()
    _put_project_on_path()
    found = _import(module)
    try:
        return reduce(getattr, attribute.split("."), found)
    except AttributeError:
        raise ConfigurationError(
            f"The module {module} has no {attribute}: look at the spelling in {reference}, and whether the module "
            "defines it when imported."
        ) from None


def load_catalogue(references: Sequence[str]) -> "Catalogue":
    """The catalogues that are named, as one; without names, those of the project file."""
    names = list(references) or find_project().catalogue
    if not names:
        raise ConfigurationError(
            "No catalogue was named, and no project file names one. Give --catalogue package.module:attribute, or add "
            'catalogue = ["package.module:attribute"] to [tool.surefoot] in pyproject.toml.'
        )
    return _together(names)


def load_known_catalogue(references: Sequence[str]) -> "Catalogue":
    """The same for commands that also work where no event type is known: then it is empty."""
    return _together(list(references) or find_project().catalogue)


def _together(names: Sequence[str]) -> "Catalogue":
    from surefoot.events import Catalogue

    catalogues = [_catalogue(name) for name in dict.fromkeys(names)]
    if len(catalogues) == 1:
        return catalogues[0]
    together = Catalogue(source="/")  # types keep their own sources; this one has none of its own
    for catalogue in catalogues:
        together.include(catalogue)
    return together


def _catalogue(name: str) -> "Catalogue":
    from surefoot.events import Catalogue

    found = load(name)
    if not isinstance(found, Catalogue):
        raise ConfigurationError(
            f"{name} is a {type(found).__name__} and no Catalogue: name the object that event types are declared with."
        )
    return found


def load_sagas(references: Sequence[str] | None) -> "list[Saga]":
    """Those named; else those that SUREFOOT_SAGAS names, with commas between; else those of the project file."""
    of_environment = [one.strip() for one in os.environ.get(SAGAS_VARIABLE, "").split(",") if one.strip()]
    names = list(references or ()) or of_environment or find_project().sagas
    if not names:
        raise ConfigurationError(
            "No saga was named, and no project file names one. Give package.module:saga, set SUREFOOT_SAGAS, or add "
            'sagas = ["package.module:saga"] to [tool.surefoot] in pyproject.toml.'
        )
    return [saga for name in names for saga in _sagas(name)]


def _sagas(name: str) -> "list[Saga]":
    from surefoot.saga import Saga

    found = load(name)
    several: Sequence[object] = found if isinstance(found, list | tuple) else [found]
    sagas = [one for one in several if isinstance(one, Saga)]
    if len(sagas) != len(several) or not sagas:
        raise ConfigurationError(
            f"{name} is a {type(found).__name__} and no Saga: name the object that steps are declared with, or a list "
            "of such."
        )
    return sagas


def load_definitions(references: Sequence[str]) -> "list[Definition]":
    """The definitions of the sagas that are named, each once; those that are no Saga yet count too."""
    found = [definition for name in references for definition in _definitions(load(name), name)]
    return list({id(definition): definition for definition in found}.values())


def _definitions(found: object, name: str) -> "Iterator[Definition]":
    from surefoot.saga import Definition, Saga

    if isinstance(found, Saga):
        yield found.definition
    elif isinstance(found, Definition):
        yield found
    elif isinstance(found, list | tuple) and found:
        for one in found:
            yield from _definitions(one, name)
    else:
        raise ConfigurationError(
            f"{name} is a {type(found).__name__} and no Saga: name the object that steps are added to, or a list "
            "of such."
        )


def _import(module: str) -> object:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"There is no module {module}: run this in the directory that has it, or install its package here "
                f"(looked in {Path.cwd()} and the environment {sys.prefix})."
            ) from None
        raise ConfigurationError(_failed(module, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigurationError(_failed(module, error)) from error


def _failed(module: str, error: BaseException) -> str:
    return f"The module {module} could not be imported, it raised {type(error).__name__}: {error}"


def _put_project_on_path() -> None:
    for folder in dict.fromkeys((str(find_project().root), str(Path.cwd()))):
        if folder not in sys.path:
            sys.path.insert(0, folder)
            importlib.invalidate_caches()

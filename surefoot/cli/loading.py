"""Finding what a command line names, `package.module:attribute`, in the user's own code.

The current directory is put on the path, as `python -m` does. Each mistake is answered with a sentence. A package of
the user's that is named like a room of ours is refused at once: one of the two would be imported in place of the other,
and the error would come later and from somewhere else.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from functools import reduce
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import surefoot
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.events import Catalogue

ROOMS = ("console", "orchestrator", "dlq", "services", "consumers", "outbox_publisher", "schemas")
CATALOGUES = "surefoot.catalogues"

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
    _put_here_on_path()
    _refuse_shadowed_rooms()
    found = _import(module)
    try:
        return reduce(getattr, attribute.split("."), found)
    except AttributeError:
        raise ConfigurationError(
            f"The module {module} has no {attribute}: look at the spelling in {reference}, and whether the module "
            "defines it when imported."
        ) from None


def load_catalogue(references: Sequence[str]) -> "Catalogue":
    """The catalogues that are named, as one; without names, those that installed packages offer."""
    from surefoot.events import Catalogue

    names = list(references) or [each.value for each in sorted(entry_points(group=CATALOGUES), key=lambda e: e.name)]
    if not names:
        raise ConfigurationError(
            "No catalogue was named and no installed package offers one: say --catalogue package.module:attribute, "
            f"or declare an entry point of the group {CATALOGUES}."
        )
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


def _put_here_on_path() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
        importlib.invalidate_caches()


def _refuse_shadowed_rooms() -> None:
    here, house = Path.cwd().resolve(), Path(str(surefoot.__file__)).resolve().parent.parent
    if here == house:
        return
    for room in ROOMS:
        theirs = PathFinder.find_spec(room, [str(here)])
        if theirs is None:
            continue
        if theirs.origin is None and not _is_imported_from(room, here):
            continue
        raise ConfigurationError(
            f"{here} has a package {room}, which is also the name of a part of Surefoot, and only one of the two can "
            "be imported: rename yours, or put it inside a package of your own."
        )


def _is_imported_from(room: str, here: Path) -> bool:
    """Whether a folder without __init__.py would be the package: only if nothing better is found elsewhere."""
    found = importlib.util.find_spec(room)
    return found is not None and str(here / room) in (found.submodule_search_locations or ())

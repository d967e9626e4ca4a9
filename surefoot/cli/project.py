"""The project file: what a project says once, so that no command has to be told again.

`[tool.surefoot]` in `pyproject.toml`, or the same keys at the top of `surefoot.toml`:

    [tool.surefoot]
    catalogue = ["shop.events:catalogue"]
    consumers = ["shop.warehouse:warehouse"]
    sagas = ["shop.sagas:order_placement"]
    database = "postgresql://shop@localhost:5432/shop"
    kafka = "localhost:9092"
    schema = "surefoot"

    [tool.surefoot.commands]
    restock = "shop.commands:restock"

The nearest file counts, in the current directory or above it. An option or a `SUREFOOT_…` variable goes before it.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from surefoot.errors import ConfigurationError

TABLE = "tool.surefoot"
PYPROJECT, OWN_FILE = "pyproject.toml", "surefoot.toml"


@dataclass(frozen=True, slots=True)
class Project:
    """What the project file says; empty where there is none. References are `package.module:name`."""

    root: Path
    """The directory of the file: modules are imported from here."""
    catalogue: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    sagas: tuple[str, ...] = ()
    database: str | None = None
    kafka: str | None = None
    schema: str | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    """Subcommands of the project's own, by their names."""

    @property
    def option_defaults(self) -> dict[str, str]:
        """What options are when neither the command line nor the environment says so."""
        found = {"database": self.database, "kafka": self.kafka, "schema": self.schema}
        return {name: value for name, value in found.items() if value is not None}


def find_project(start: Path | None = None) -> Project:
    """Read the nearest project file, from `start` (by default the current directory) upwards."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        tables = {
            file: table for file in (folder / PYPROJECT, folder / OWN_FILE) if (table := _table(file)) is not None
        }
        if len(tables) > 1:
            raise ConfigurationError(
                f"{folder} has a project file twice: [{TABLE}] in {PYPROJECT}, and {OWN_FILE}. Keep one of them."
            )
        for file, table in tables.items():
            return _project(file, table)
    return Project(here)


def _table(file: Path) -> Mapping[str, object] | None:
    if not file.is_file():
        return None
    try:
        content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read as TOML: {error}.") from error
    if file.name == OWN_FILE:
        return content
    table: object = content.get("tool", {}).get("surefoot")
    if table is not None and not isinstance(table, dict):
        raise ConfigurationError(f"{file}: {TABLE} must be a table.")
    return table


def _project(file: Path, table: Mapping[str, object]) -> Project:
    known = [one.name for one in fields(Project) if one.name != "root"]
    if unknown := sorted(table.keys() - set(known)):
        raise ConfigurationError(f"{file}: [{TABLE}] has no key {unknown[0]!r}. It knows {', '.join(known)}.")
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name == "commands":
            values[name] = _texts_by_name(file, value)
        elif name in ("catalogue", "consumers", "sagas"):
            values[name] = _texts(file, name, value)
        else:
            values[name] = _text(file, name, value)
    if "database" in values:
        _refuse_password(file, values["database"])
    return Project(file.parent, **values)


def _text(file: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{file}: {name} must be a text that is not empty, not {value!r}.")
    return value


def _texts(file: Path, name: str, value: object) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    return tuple(_text(file, name, one) for one in several)


def _texts_by_name(file: Path, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigurationError(f'{file}: commands must be a table, such as restock = "shop.commands:restock".')
    return {name: _text(file, f"commands.{name}", one) for name, one in value.items()}


def _refuse_password(file: Path, url: str) -> None:
    """The file is under version control, so a password in it is a password given away."""
    try:
        parts = urlsplit(url)
        has_one = parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return  # it cannot be read at all: the command that uses it says so
    if has_one:
        raise ConfigurationError(
            f"{file} has a password in `database`. Take it out, and change it if the file was shared. Give the "
            "password by PGPASSWORD or a password file, or the whole URL by SUREFOOT_DATABASE."
        )

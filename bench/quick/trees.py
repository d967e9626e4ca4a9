"""The two source trees that are compared: the working tree, and a commit in a temporary folder.

The commit's files come from `git archive`, which leaves no trace in the repository, however the bench ends.
"""

import io
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

REPOSITORY = Path(__file__).resolve().parent.parent.parent
Side = Literal["base", "tree"]


class CannotMeasure(Exception):
    """The bench has no answer. Its sentence says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Base:
    commit: str
    why: str


@dataclass(frozen=True, slots=True)
class Tree:
    """Source files, and the metadata of an installed package that names their entry points."""

    side: Side
    root: Path
    metadata: Path


def choose_base(wanted: str | None, repository: Path = REPOSITORY) -> Base:
    """The commit to compare with: the one that is wanted, else the one that the changes at hand started from."""
    if wanted:
        found = _find(repository, wanted)
        if found is None:
            raise CannotMeasure(f"There is no commit {wanted} here. Name another with BASE=, or fetch it first.")
        return Base(found, wanted)
    head = commit_of_head(repository)
    changed = is_changed(repository)
    branch = _git(repository, "branch", "--show-current").decode().strip()
    if branch not in ("", "main") and _find(repository, "main"):
        fork = _git(repository, "merge-base", "HEAD", "main").decode().strip()
        if changed or fork != head:
            return Base(fork, f"the merge base of {branch} and main")
    if changed:
        return Base(head, "HEAD, because there are uncommitted changes")
    before = _find(repository, "HEAD~1")
    if before is None:
        raise CannotMeasure("HEAD has no parent here, so there is no commit to compare with. Name one with BASE=.")
    return Base(before, "HEAD~1, because there are no uncommitted changes")


def is_changed(repository: Path = REPOSITORY) -> bool:
    return bool(_git(repository, "status", "--porcelain").strip())


def commit_of_head(repository: Path = REPOSITORY) -> str:
    return _git(repository, "rev-parse", "HEAD").decode().strip()


def check_out(commit: str, where: Path, repository: Path = REPOSITORY) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git(repository, "archive", commit))) as archive:
        archive.extractall(where, filter="data")


def tree(side: Side, root: Path, where: Path) -> Tree:
    """Write the metadata that an installation of this tree would have: the virtual environment has the metadata of
    one tree only, and its commands may be in other modules than those of the other tree."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    metadata = where / f"metadata-{side}"
    info = metadata / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{point} = {target}" for point, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return Tree(side, root, metadata)


def _find(repository: Path, name: str) -> str | None:
    try:
        return _git(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except CannotMeasure:
        return None


def _git(repository: Path, *arguments: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise CannotMeasure("git is not on the PATH, so no commit can be compared with. Install it.") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip() or f"exit code {error.returncode}"
        raise CannotMeasure(f"git {' '.join(arguments)} failed in {repository}: {said}") from None

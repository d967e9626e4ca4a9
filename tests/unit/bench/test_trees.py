"""Which commit `make bench-quick` compares the working tree with, and how the other tree is laid out."""

import subprocess
from importlib.metadata import distributions
from pathlib import Path

import pytest

from bench.quick.trees import CannotMeasure, check_out, choose_base, tree


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """On main, with two commits and no changes."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path, "first")
    commit(tmp_path, "second")
    return tmp_path


def git(where: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(where), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(where: Path, text: str) -> str:
    (where / "file").write_text(text)
    git(where, "add", "file")
    git(where, "commit", "--quiet", "--message", text)
    return git(where, "rev-parse", "HEAD")


def test_the_commit_that_is_named_is_taken(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD~1")
    assert choose_base("main~1", repository).commit == first


def test_an_unknown_commit_is_refused_with_a_sentence(repository: Path) -> None:
    with pytest.raises(CannotMeasure, match="There is no commit nowhere here"):
        choose_base("nowhere", repository)


def test_on_a_branch_it_is_the_merge_base_with_main(repository: Path) -> None:
    fork = git(repository, "rev-parse", "HEAD")
    git(repository, "switch", "--quiet", "--create", "faster")
    commit(repository, "third")
    git(repository, "switch", "--quiet", "main")
    commit(repository, "something else")
    git(repository, "switch", "--quiet", "faster")
    chosen = choose_base(None, repository)
    assert (chosen.commit, chosen.why) == (fork, "the merge base of faster and main")


def test_on_main_with_uncommitted_changes_it_is_head(repository: Path) -> None:
    (repository / "file").write_text("changed")
    chosen = choose_base(None, repository)
    assert chosen.commit == git(repository, "rev-parse", "HEAD")
    assert chosen.why.startswith("HEAD,")


@pytest.mark.parametrize("branch", ["main", "new-branch-without-commits"])
def test_without_any_changes_it_is_the_commit_before(repository: Path, branch: str) -> None:
    if branch != "main":
        git(repository, "switch", "--quiet", "--create", branch)
    chosen = choose_base(None, repository)
    assert chosen.commit == git(repository, "rev-parse", "HEAD~1")
    assert chosen.why.startswith("HEAD~1,")


def test_a_commit_is_checked_out_without_a_trace_in_the_repository(repository: Path, tmp_path: Path) -> None:
    (repository / "file").write_text("changed")
    before = git(repository, "worktree", "list")
    where = tmp_path / "elsewhere"
    check_out(git(repository, "rev-parse", "HEAD~1"), where, repository)
    assert (where / "file").read_text() == "first"
    assert (repository / "file").read_text() == "changed"
    assert git(repository, "worktree", "list") == before


def test_a_tree_has_the_entry_points_of_its_own_project_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "surefoot"\nversion = "9.8.7"\n'
        '[project.entry-points."surefoot.commands"]\nrelay = "moved.elsewhere:relay"\n'
    )
    made = tree("base", tmp_path, tmp_path)
    (found,) = distributions(path=[str(made.metadata)])
    assert (found.name, found.version) == ("surefoot", "9.8.7")
    assert [(one.group, one.name, one.value) for one in found.entry_points] == [
        ("surefoot.commands", "relay", "moved.elsewhere:relay")
    ]

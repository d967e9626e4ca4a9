"""The wheel, installed into an environment of its own beside a project that has all our folders' names as packages."""

import asyncio
import os
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from surefoot.cli.main import OWN
from surefoot.process_guard import create_guarded_process
from tests.support.ports import free_port
from tests.support.waiting import eventually
from tests.support.wheel_project import NAMES, write_project

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests", "bench", "docs")


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and a project to run there."""

    python: Path
    project: Path

    @property
    def surefoot(self) -> Path:
        return self.python.with_name("surefoot")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SUREFOOT_", "PYTHON"))}
        return {**kept, "COLUMNS": "200", **more}

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.project,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def well(self, *command: str | Path, **environment: str) -> str:
        done = self.run(*command, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "."]
    subprocess.run([*build, "./source"], cwd=folder, check=True, capture_output=True)
    (made,) = folder.glob("surefoot-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Without the network: what the wheel depends on is found where the tests have it, behind what is installed."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "environment", symlinks=True)
    python = folder / "environment" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = (folder / "environment" / "lib").glob("python*/site-packages")
    dependencies = [path for path in site.getsitepackages() if path.startswith(sys.prefix)]
    (packages / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return Installed(python, write_project(folder / "project"))


def test_the_wheel_holds_one_package_and_one_entry_point(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        lines = archive.read(entry_points).decode().split()
    assert tops == {"surefoot"}
    assert lines == ["[console_scripts]", "surefoot", "=", "surefoot.cli.main:main"]


def test_the_environment_uses_the_wheel_and_the_project_its_own_packages(installed: Installed) -> None:
    program = "import surefoot; print(surefoot.__file__)\n" + "".join(
        f"import {name}; print({name}.__file__)\n" for name in NAMES
    )
    ours, *theirs = installed.well(installed.python, "-c", program).split()
    assert ours.startswith(str(installed.python.parents[1]))
    assert all(path.startswith(str(installed.project)) for path in theirs)
    assert len(theirs) == 6


@pytest.mark.parametrize("way", ["the command", "python -m", "python -m with PYTHONPATH"])
def test_every_command_starts_there(way: str, installed: Installed) -> None:
    command: list[str | Path] = [installed.surefoot] if way == "the command" else [installed.python, "-m", "surefoot"]
    environment = {"PYTHONPATH": "."} if way == "python -m with PYTHONPATH" else {}
    listed = installed.well(*command, "--help", **environment)
    for name in (*OWN, "hello"):
        assert f"│ {name} " in listed
        if way == "the command":
            assert "Usage: surefoot" in installed.well(*command, name, "--help", **environment)
    assert installed.well(*command, "hello", **environment) == "from the project\n"
    assert installed.run(*command, "demo", **environment).returncode == 2


def test_the_projects_own_tests_run_under_pytest(installed: Installed) -> None:
    printed = installed.well(installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert "2 passed" in printed


def test_the_projects_app_runs_under_django(installed: Installed) -> None:
    program = "import django, dlq; django.setup(); from dlq.models import outbox; print(dlq.ANSWER, outbox.__name__)"
    printed = installed.well(installed.python, "-c", program, DJANGO_SETTINGS_MODULE="django_settings")
    assert printed == "the dlq of the project surefoot.outbox\n"


async def test_the_projects_app_runs_under_uvicorn(installed: Installed) -> None:
    port = free_port()
    async with running(installed, "uvicorn", "services.web:app", "--port", str(port), module="uvicorn"):

        async def answers() -> bytes:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return b""
            writer.write(b"GET /types HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

        assert b"200 OK" in await eventually(answers, what="the app answers")


async def test_an_event_a_consumer_and_a_saga_run_there(installed: Installed, empty_database_url: str) -> None:
    environment = {"SUREFOOT_DATABASE": empty_database_url}
    run: Callable[..., str] = lambda *command: installed.well(installed.surefoot, *command, **environment)  # noqa: E731
    run("migrate")
    run("topics", "create")
    assert "is proved" in run("saga", "verify", "orchestrator:packing")
    connection = await asyncpg.connect(empty_database_url)
    try:
        async with (
            running(installed, "relay", **environment),
            running(installed, "consume", "consumers.warehouse:warehouse", **environment),
            running(installed, "orchestrate", **environment),
        ):
            installed.well(installed.python, "-m", "services.publish", "order-1", **environment)

            async def completed() -> bool:
                return bool(
                    await connection.fetchval(
                        "SELECT count(*) FROM surefoot.saga_instances WHERE entity_id = 'order-1' "
                        "AND status = 'COMPLETED'"
                    )
                )

            await eventually(completed, what="the saga has ended")
    finally:
        await connection.close()
    assert "order-1" in run("saga", "list", "--status", "COMPLETED")


@asynccontextmanager
async def running(
    installed: Installed, *arguments: str, module: str = "surefoot", **environment: str
) -> AsyncIterator[None]:
    """`python -m module …` in the project, until the block ends."""
    command = arguments[1:] if module == "uvicorn" else arguments
    log = installed.project / f"{arguments[0]}.log"
    with log.open("wb") as output:
        process = await create_guarded_process(
            *(str(installed.python), "-m", module, *command),
            cwd=installed.project,
            env=installed.environment(**environment),
            stdout=output,
            stderr=output,
        )
    try:
        yield
        assert process.returncode is None, log.read_text()
    finally:
        if process.returncode is None:
            process.terminate()
        assert await process.wait() in (0, -15), log.read_text()

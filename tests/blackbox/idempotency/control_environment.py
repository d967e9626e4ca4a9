"""An environment of its own for the package that the suite is tried on, in a per-user cache outside the repository.

Made once; after that no network is needed. It is made under a name of its own and renamed when it is complete, so that
an interrupted one is never used.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PINNED = (
    "asgi-idempotency-header==0.2.0",
    "anyio==3.7.1",
    "click==8.3.3",
    "fastapi==0.70.1",
    "h11==0.16.0",
    "idna==3.20",
    "pydantic==1.10.27",
    "redis==4.6.0",
    "sniffio==1.3.1",
    "starlette==0.16.0",
    "typing_extensions==4.16.0",
    "uvicorn==0.54.0",
)
"""The package imports FastAPI and Redis wherever it is used, and wants a FastAPI of this age. No Redis is needed."""
TIMEOUT_S = 240


def control_python() -> Path:
    """The interpreter of the environment, which is made if it is not there yet."""
    wanted = hashlib.sha256("\n".join([sys.version, *PINNED]).encode()).hexdigest()[:12]
    cached = _cache_directory() / f"idempotency-control-{wanted}"
    if not cached.is_dir():
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent, prefix="environment-") as temporary:
            made = Path(temporary) / "made"
            _make(made)
            try:
                made.rename(cached)
            except OSError:
                # Another process finished first; its environment is as good as ours.
                if not cached.is_dir():
                    raise
    return cached / "bin" / "python"


def _make(directory: Path) -> None:
    _run([sys.executable, "-m", "venv", str(directory)])
    pip = [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, "--no-deps", *PINNED])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "surefoot"

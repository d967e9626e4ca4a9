"""A command loads only what it runs: neither help nor a process waits for libraries that it does not use.

Each test looks at the modules of a fresh interpreter, because this one has loaded nearly all of them.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas import catalogue
from surefoot.cli.topics import declared
from surefoot.log.postgres.log import PostgresLog
from surefoot.process_guard import guarded_popen

ROOT = Path(__file__).parents[2]
HTTP = {"fastapi", "starlette", "uvicorn", "httpx"}
DATABASE = {"sqlalchemy", "asyncpg", "alembic"}
TELEMETRY = {"structlog", "prometheus_client", "opentelemetry"}
KAFKA = {"aiokafka", "faust"}

SAY_MODULES = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules}))))
"""
PRINT_EVERY_HELP = """
from typer.main import get_command
from surefoot.cli.main import build

def print_help(command, name, parent=None):
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    print(command.get_help(context))
    for each, subcommand in getattr(command, "commands", {}).items():
        print_help(subcommand, each, context)

print_help(get_command(build()), "surefoot")
"""
RUN = """
from surefoot.cli.main import main
main()
"""
WAREHOUSE = "consumers.warehouse:warehouse"


def loaded_by(program: str) -> tuple[str, set[str]]:
    """What a program printed, and the packages that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", SAY_MODULES + program],
        cwd=ROOT,
        env={**_clean_environment(), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    printed, _, modules = done.stdout.rstrip().rpartition("\n")
    return printed, set(json.loads(modules))


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}


def test_printing_every_help_loads_nothing_that_a_command_needs_only_when_it_runs() -> None:
    printed, loaded = loaded_by(PRINT_EVERY_HELP)
    for command in ("", " consume", " relay", " saga verify", " dlq token create", " services provider"):
        assert f"Usage: surefoot{command} [OPTIONS]" in printed
    assert not loaded & (HTTP | DATABASE | TELEMETRY | KAFKA | {"pydantic_settings", "cryptography", "uvloop"})


def test_a_service_that_publishes_loads_no_broker_no_web_framework_and_no_settings() -> None:
    _, loaded = loaded_by("import surefoot.outbox")
    assert "sqlalchemy" in loaded
    assert not loaded & (HTTP | KAFKA | {"asyncpg", "alembic", "structlog", "prometheus_client", "pydantic_settings"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "needless"),
    [
        (["relay"], HTTP | KAFKA | {"sqlalchemy", "alembic"}),
        (["consume", WAREHOUSE], HTTP | KAFKA | {"alembic"}),
        (["orchestrate"], HTTP | KAFKA | {"alembic"}),
    ],
    ids=["relay", "consume", "orchestrate"],
)
def test_a_process_on_the_postgres_log_loads_neither_kafka_nor_http_nor_alembic(
    command: list[str], needless: set[str], database_url: str
) -> None:
    asyncio.run(_create_topics(database_url))
    process = guarded_popen(
        [sys.executable, "-c", SAY_MODULES + RUN, *command, "--database", database_url],
        cwd=ROOT,
        env=_clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any("gained" in line for line in process.stderr)  # it has shards or partitions: all is loaded
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    loaded = set(json.loads(printed))
    assert "asyncpg" in loaded
    assert not loaded & needless


async def _create_topics(url: str) -> None:
    log = PostgresLog(url, "surefoot")
    await log.create(declared(catalogue))
    await log.close()

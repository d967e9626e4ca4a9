"""`compose.yaml`: as far as it can be checked without an engine, and by Docker Compose itself where there is one."""

import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.integration.test_docs import parse
from tests.support import processes

PATH = Path(__file__).parents[2] / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(PATH.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


DEPLOYMENTS = {"relay": "outbox_publisher", "orchestrator": "orchestrator", "dlq": "dlq", "shop": "consumers"}
"""Which folder each service runs by `python -m`."""


def surefoot_commands(service: dict[str, Any]) -> list[list[str]]:
    """The `surefoot …` commands a service runs, also those inside a shell's."""
    words: list[str] = service.get("command", [])
    lines = re.split(r"&&|;|\|\|", words[2]) if words[:2] == ["sh", "-c"] else [shlex.join(words)]
    return [line[1:] for line in map(shlex.split, lines) if line[:1] == ["surefoot"]]


def test_postgres_kafka_and_the_processes_are_there() -> None:
    assert SERVICES.keys() == {"postgres", "kafka", "migrate", "relay", "orchestrator", "dlq", "provider", "shop"}
    assert SERVICES["postgres"]["image"] == "postgres:18"
    assert SERVICES["kafka"]["image"].startswith("apache/kafka:")
    assert SERVICES["kafka"]["environment"]["KAFKA_PROCESS_ROLES"] == "broker,controller"
    assert SERVICES["relay"]["deploy"]["replicas"] == 2


def test_what_a_service_waits_for_exists_and_can_become_true() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, f"{name} waits for {needed}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} waits for the health of {needed}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert "restart" not in SERVICES[needed], f"{needed} would never be done"


def test_nothing_starts_before_the_tables_and_topics_are_made() -> None:
    for name in ("relay", "orchestrator", "dlq", "provider", "shop"):
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}, name
    assert surefoot_commands(SERVICES["migrate"]) == [["migrate"], ["topics", "create"]]


@pytest.mark.parametrize("name", ["migrate", "provider"])
def test_the_commands_are_ones_that_exist(name: str) -> None:
    found = surefoot_commands(SERVICES[name])
    assert found
    for arguments in found:
        parse(arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_deployments_are_run_with_options_that_they_have(name: str) -> None:
    python, dash_m, module, *options = SERVICES[name]["command"]
    assert (python, dash_m, module) == ("python", "-m", DEPLOYMENTS[name])
    done = processes.run([module, *options, "--help"])
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_deployment_is_asked_whether_it_is_alive_and_ready_where_it_answers(name: str) -> None:
    command: list[str] = SERVICES[name]["command"]
    port = command[command.index("--metrics-port") + 1]
    *python, program = SERVICES[name]["healthcheck"]["test"]
    assert python == ["CMD", "python", "-c"]
    asked: list[str] = []
    reader = SimpleNamespace(urlopen=lambda url, timeout: asked.append(url))
    eval(program.removeprefix("import urllib.request as r; "), {"r": reader})  # noqa: S307 - it is our own
    assert asked == [f"http://localhost:{port}/livez", f"http://localhost:{port}/readyz"]


def test_every_named_volume_is_declared_and_used() -> None:
    used = {mount.partition(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])}
    assert used == COMPOSE["volumes"].keys() == {"postgres", "kafka"}


def test_the_addresses_are_those_of_the_services() -> None:
    environment = SERVICES["relay"]["environment"]
    assert environment["SUREFOOT_DATABASE"].endswith("@postgres:5432/surefoot")
    assert (
        f"INTERNAL://{environment['SUREFOOT_KAFKA']}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    )
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", []))


def test_no_secret_is_written_into_it() -> None:
    passwords = re.findall(r"(?i)password: *(\S+)|://\w+:([^@]+)@", PATH.read_text())
    assert {one or other for one, other in passwords} == {"${SUREFOOT_DEV_PASSWORD:-surefoot}"}


def test_what_is_copied_into_the_image_is_here_and_all_of_it_is() -> None:
    dockerfile: str = SERVICES["relay"]["build"]["dockerfile_inline"]
    copied = [word for line in dockerfile.splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert all((PATH.parent / name).exists() for name in copied)
    packages = re.search(r"include = \[(.*)\]", (PATH.parent / "pyproject.toml").read_text())
    assert packages is not None
    assert {*re.findall(r'"(\w+)\*"', packages[1]), *DEPLOYMENTS.values(), "services", "schemas"} <= set(copied)


def test_docker_compose_accepts_it_where_there_is_one() -> None:
    try:
        there = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        there = False
    if there:
        checked = subprocess.run(
            ["docker", "compose", "--file", str(PATH), "config", "--quiet"], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr

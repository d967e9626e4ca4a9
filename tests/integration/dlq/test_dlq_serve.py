"""`surefoot dlq serve` as a process: it starts closed or not at all, runs beside its like, and stops cleanly."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import httpx
import pytest

from tests.support import processes
from tests.support.dlq.served_harness import WITHIN_S, Ground, all_parts, ground_at, running
from tests.support.ports import free_port
from tests.support.processes import Child
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def ground(database_url: str, tmp_path: Path) -> Iterator[Ground]:
    with ground_at(database_url, tmp_path) as ground:
        yield ground


def serve(ground: Ground, *options: str, **environment: str) -> Child:
    command = ["surefoot", "dlq", "serve", "--port", str(ground.port), *options]
    return processes.start(command, environment={**ground.environment(""), **environment}, stdout=PIPE, stderr=PIPE)


def refused(ground: Ground, *options: str, **environment: str) -> str:
    """Its sentence; it must have ended with code 2 and without a traceback."""
    process = serve(ground, *options, **environment)
    out, complained = process.communicate(timeout=60)
    assert process.returncode == 2, out + complained
    assert "Traceback" not in out + complained
    return complained.strip().splitlines()[-1]


def ask(ground: Ground, path: str, token: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.get(f"{ground.address}/admin/dlq{path}", headers=headers, trust_env=False)


def test_without_a_way_for_anybody_to_get_in_it_does_not_start(ground: Ground) -> None:
    ground.execute("DELETE FROM surefoot.admin_tokens")
    assert "surefoot dlq token create" in refused(ground)


def test_open_to_everybody_it_starts_at_this_machine_alone(ground: Ground) -> None:
    assert "can be reached from other machines" in refused(ground, "--open", "--host", "0.0.0.0")  # noqa: S104
    ground.execute("DELETE FROM surefoot.admin_tokens")
    with running(ground, {"dlq": ("dlq", "serve", "--port", str(ground.port), "--open")}):
        ground.wait_until_served()
        assert ask(ground, "/groups").status_code == 200


def test_not_open_it_tells_strangers_nothing(ground: Ground) -> None:
    with running(ground, {"dlq": ("dlq", "serve", "--port", str(ground.port))}):
        ground.wait_until_served()
        assert ask(ground, "/groups").status_code == 401
        assert ask(ground, "/groups", ground.tokens["vera"]).status_code == 200


def test_what_it_cannot_do_is_a_sentence(ground: Ground, empty_database_url: str) -> None:
    assert "does not answer" in refused(ground, SUREFOOT_DATABASE="postgresql://u:secret@127.0.0.1:1/x")
    assert "surefoot migrate" in refused(ground, SUREFOOT_DATABASE=empty_database_url)
    assert "cannot be used" in refused(ground, SUREFOOT_DLQ_TICK="soon")
    assert "whose tokens count" in refused(ground, SUREFOOT_DLQ_JWT_JWKS="a.json", SUREFOOT_DLQ_JWT_SECRET="x" * 32)
    with socket.create_server(("127.0.0.1", ground.port)):
        assert f"Dead letters cannot be served at 127.0.0.1:{ground.port}" in refused(ground)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_when_it_is_told_to(ground: Ground, number: signal.Signals) -> None:
    process = serve(ground)
    assert process.stdout is not None
    assert "Dead letters are at" in next(line for line in process.stdout if "Dead letters" in line)
    ground.wait_until_served()
    os.kill(process.pid, number)
    out, complained = process.communicate(timeout=30)
    assert process.returncode == 0, out + complained
    assert "The dead-letter service has stopped" in out
    assert "Traceback" not in complained


def test_metrics_are_served_where_it_is_asked(ground: Ground) -> None:
    port = free_port()
    command = ("dlq", "serve", "--port", str(ground.port), "--metrics-port", str(port))
    with running(ground, {"dlq": command}):
        ground.wait_until_served()
        found = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    assert "surefoot_dlq_letters_total" in found


def test_two_share_the_work_and_one_that_is_killed_is_not_missed(ground: Ground) -> None:
    """The job is asked of one service, which is killed; the other one carries it to its end."""
    parts = all_parts(ground)
    other = free_port()
    parts["other"] = ("dlq", "serve", "--port", str(other))
    with running(ground, parts) as started:
        ground.wait_until_served()
        names = [f"shared-{n}" for n in range(20)]
        ground.dead(*names)
        ground.mend(*names)
        asked = httpx.post(
            f"{ground.address}/admin/dlq/replay",
            json={"filter": {"consumer": "demo-labels"}, "reason": "mended", "rate": 20},
            headers={"Authorization": f"Bearer {ground.tokens['olga']}"},
            trust_env=False,
        )
        assert asked.status_code == 202, asked.text
        started["dlq"].kill()
        ground.port = other
        wait_until(
            lambda: _job(ground, asked.json()["job_id"])["status"] == "DONE", what="the job is done", within_s=WITHIN_S
        )
        job = _job(ground, asked.json()["job_id"])
        assert (job["total"], job["ok"], job["failed"]) == (20, 20, 0)
        assert ground.value("SELECT count(*) FROM labels.quotes WHERE order_id LIKE 'shared-%%'") == 20


def test_who_follows_a_job_goes_on_watching_while_the_service_is_killed_and_started_again(ground: Ground) -> None:
    parts = all_parts(ground)
    with running(ground, parts) as started:
        ground.wait_until_served()
        names = [f"watched-{n}" for n in range(10)]
        ground.dead(*names)
        ground.mend(*names)
        command = ["dlq", "replay", "--consumer", "demo-labels", "--rate", "5", "--follow", "--reason", "mended"]
        watching = processes.start(
            ["surefoot", *command], environment=ground.environment("olga"), stdout=PIPE, stderr=PIPE
        )
        assert watching.stdout is not None
        assert "RUNNING" in [watching.stdout.readline() for _ in range(2)][1]
        started["dlq"].kill()
        started["dlq"].wait()
        started["dlq"] = ground.start("dlq", *parts["dlq"])
        said, complained = watching.communicate(timeout=60)
    assert watching.returncode == 0, said + complained
    assert "Of 10, 10 went well and 0 did not." in said


def _job(ground: Ground, job_id: str) -> dict[str, object]:
    found: dict[str, object] = ask(ground, f"/jobs/{job_id}", ground.tokens["vera"]).json()
    return found

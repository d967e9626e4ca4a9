"""Every `surefoot dlq …` in the documents is given, to a real service with a real consumer, and works.

The dead letters, jobs, requests and tokens that the documents speak of are there under the ids they have there: orders
of one group, mended; a job that runs slowly and one that is paused; a discard that waits. Before a command that changes
them they are placed anew.
"""

import asyncio
import json
import shlex
from datetime import timedelta
from itertools import filterfalse

import httpx
import psycopg
import pytest

from surefoot.audit.access import Tokens
from surefoot.database.connection import connect
from tests.integration.test_docs import UNTIL_STOPPED, shown
from tests.support.dlq.fixtures import ground
from tests.support.dlq.served_harness import Given, Ground, given, order

pytestmark = pytest.mark.slow
__all__ = ["given", "ground"]

LETTER = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
SLOW_JOB, PAUSED_JOB = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b21", "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b22"
UNANSWERED_JOB = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b23"
REQUEST = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b31"
TOKEN = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b41"
GROUP = "9f2c4e1a7b3d5860"
HASH = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
LINES = [
    line for line in shown("surefoot") if line.startswith("surefoot dlq ") and line.split()[2] not in UNTIL_STOPPED
]
READS = {"groups", "list", "show", "reveal", "jobs", "job", "approvals", "export", "report"}
TABLES = "dlq_events, dlq_groups, dlq_group_changes, dlq_jobs, dlq_job_items, dlq_approvals, dlq_approval_items"


def place(ground: Ground) -> None:
    """What the documents speak of."""
    for table in TABLES.split(", "):
        ground.execute(f"DELETE FROM surefoot.{table}")
    ground.execute("DELETE FROM surefoot.parked_events")
    ground.execute("DELETE FROM surefoot.processed_events WHERE consumer = 'demo-labels'")
    ground.execute("DELETE FROM labels.quotes")
    orders = [f"order-{n}" for n in range(7, 13)]
    letters = ground.dead(*orders)
    ground.mend(*orders)
    ground.execute("UPDATE surefoot.dlq_events SET fingerprint = %s", GROUP)
    ground.execute("UPDATE surefoot.dlq_events SET id = %s::uuid WHERE id = %s::uuid", LETTER, letters[0])
    slow = ask(ground, "olga", "/replay", event_id=[letters[1]], rate=0.0001)["job_id"]
    paused = ask(ground, "olga", "/replay", event_id=[letters[2]], rate=0.0001)["job_id"]
    ask(ground, "olga", f"/jobs/{paused}/pause")
    unanswered = ask(ground, "olga", "/replay", event_id=[letters[5]], rate=0.0001)["job_id"]
    ground.execute(
        "UPDATE surefoot.dlq_job_items SET state = 'SENT', sends = 1, sent_at = now() + interval '1 day' "
        "WHERE job_id = %s::uuid",
        unanswered,
    )
    ask(ground, "olga", f"/jobs/{unanswered}/cancel")
    request = ask(ground, "olga", "/discard", event_id=[letters[3]])["id"]
    rename(ground, slow, SLOW_JOB)
    rename(ground, paused, PAUSED_JOB)
    rename(ground, unanswered, UNANSWERED_JOB)
    rename(ground, request, REQUEST)
    asyncio.run(_place_token(ground.url))
    (ground.directory / "mended.json").write_text(order("order-7", "CH").model_dump_json())
    for left in ("letters.csv", "report.md"):
        (ground.directory / left).unlink(missing_ok=True)


def rename(ground: Ground, made: str, told: str) -> None:
    """In one transaction: a job without its items would be taken for done."""
    columns = {"dlq_jobs": "id", "dlq_job_items": "job_id", "dlq_events": "job_id"}
    columns |= {"dlq_approvals": "id", "dlq_approval_items": "approval_id"}
    with psycopg.connect(ground.url) as connection:
        for table, column in columns.items():
            statement = f"UPDATE surefoot.{table} SET {column} = %s::uuid WHERE {column} = %s::uuid"
            connection.execute(statement.encode(), [told, made])


async def _place_token(url: str) -> None:
    connection = await connect(url, name="test")
    try:
        async with connection.transaction():
            await connection.execute("DELETE FROM surefoot.admin_tokens WHERE person = 'somebody'")
            made = await Tokens(connection, "surefoot").create(
                "somebody", "VIEWER", lifetime=timedelta(days=1), by="test"
            )
            await connection.execute(
                "UPDATE surefoot.admin_tokens SET id = $1::uuid WHERE id = $2::uuid", TOKEN, str(made.id)
            )
    finally:
        await connection.close()


def ask(ground: Ground, person: str, path: str, **body: object) -> dict[str, str]:
    answer = httpx.post(
        f"{ground.address}/admin/dlq{path}",
        json={"reason": "an example", **body},
        headers={"Authorization": f"Bearer {ground.tokens[person]}"},
        trust_env=False,
    )
    assert answer.is_success, answer.text
    found: dict[str, str] = json.loads(answer.text)
    return found


def changes(line: str) -> bool:
    return line.split()[2] not in READS


def test_there_are_commands_to_be_tried() -> None:
    verbs = {line.split()[2] for line in LINES}
    assert {"groups", "list", "show", "reveal", "replay", "edit", "jobs", "job", "pause", "resume", "cancel"} <= verbs
    assert {"abandon", "discard", "approvals", "approve", "refuse", "export", "report", "token"} <= verbs


@pytest.mark.parametrize("line", [*filterfalse(changes, LINES), *filter(changes, LINES)])
def test_every_command_about_dead_letters_in_the_documents_works(line: str, ground: Ground, given: Given) -> None:
    if changes(line) or ground.status(LETTER) != "OPEN":
        place(ground)
    set_hash = str(ground.value("SELECT set_hash FROM surefoot.dlq_approvals WHERE id = %s::uuid", REQUEST))
    arguments = [set_hash if word == HASH else word for word in shlex.split(line)[1:]]
    done = given(ground, *arguments, person="ben")
    assert done.code == 0, done.out + done.err
    assert "Traceback" not in done.err


def test_what_the_documents_replay_in_a_hurry_has_its_effect(ground: Ground, given: Given) -> None:
    (line,) = [line for line in LINES if "--canary 5 --follow" in line]
    place(ground)
    assert given(ground, *shlex.split(line)[1:], person="ben").code == 0
    assert ground.status(LETTER) == "REPLAYED"
    assert ground.value("SELECT count(*) FROM labels.quotes WHERE order_id IN ('order-7', 'order-11')") == 2

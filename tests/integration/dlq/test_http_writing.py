"""Writes over HTTP: each once, whatever is clicked, and answered as it was."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from surefoot.admin import idempotency
from surefoot.database.locks import ADMIN_REQUEST
from surefoot.dlq.settings import DlqSettings
from tests.support.dlq.http_harness import WHY, Ground, assert_problem, ground_at


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Ground]:
    async with ground_at(database_url) as ground:
        yield ground


async def test_a_replay_makes_a_job_over_what_is_open(ground: Ground) -> None:
    ids = await ground.letters(3)
    answer = await ground.post("otto", "/replay", {"event_id": ids, "reason": WHY, "canary": 1, "rate": 5})
    assert answer.status_code == 202
    made = answer.json()
    assert (made["kind"], made["total"], made["left_out"]) == ("replay", 3, [])
    assert await ground.statuses() == ["REPLAYING"] * 3
    job = (await ground.get("vera", f"/jobs/{made['job_id']}")).json()
    assert (job["created_by"], job["reason"], job["pending"], job["canary"], job["rate"]) == ("otto", WHY, 3, 1, 5)
    items = (await ground.get("vera", f"/jobs/{made['job_id']}/items?limit=2")).json()
    assert [item["dlq_id"] for item in items["items"]] == ids[:2]
    rest = (await ground.get("vera", f"/jobs/{made['job_id']}/items?after={items['next']}")).json()
    assert ([item["dlq_id"] for item in rest["items"]], rest["next"]) == ([ids[2]], None)
    assert await ground.audit() == [("otto", "replay", "done", made["job_id"])]


async def test_a_replay_by_filter_and_by_the_events_own_ids(ground: Ground) -> None:
    await ground.letters(3)
    answer = await ground.post("otto", "/replay", {"filter": {"key": "order-1"}, "reason": WHY})
    assert answer.json()["total"] == 1
    answer = await ground.post("otto", "/replay", {"event_id": ["event-0", "event-1"], "reason": WHY})
    assert (answer.json()["total"], answer.json()["left_out"]) == (1, [{"why": "replaying", "many": 1}])
    assert await ground.statuses() == ["REPLAYING", "REPLAYING", "OPEN"]


async def test_a_dry_run_changes_nothing(ground: Ground) -> None:
    ids = await ground.letters(2)
    answer = await ground.post("otto", "/replay", {"event_id": ids, "reason": WHY, "dry_run": True})
    assert answer.json()["kind"] == "inspect"
    assert await ground.statuses() == ["OPEN", "OPEN"]


async def test_jobs_are_paused_resumed_and_cancelled(ground: Ground) -> None:
    ids = await ground.letters(1)
    job = (await ground.post("otto", "/replay", {"event_id": ids, "reason": WHY})).json()["job_id"]
    for verb, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("cancel", "CANCELLING")):
        answer = await ground.post("otto", f"/jobs/{job}/{verb}", {"reason": WHY})
        assert (answer.status_code, answer.json()["status"]) == (200, status)
    assert_problem(await ground.post("otto", f"/jobs/{job}/cancel", {"reason": WHY}), 409, "")
    assert await ground.statuses() == ["OPEN"]
    assert [each[:3] for each in await ground.audit()] == [
        ("otto", "replay", "done"),
        ("otto", "pause", "done"),
        ("otto", "resume", "done"),
        ("otto", "cancel", "done"),
        ("otto", "cancel", "refused"),
    ]
    assert (await ground.post("ada", f"/jobs/{job}/abandon", {"reason": WHY})).status_code == 200
    page = (await ground.get("vera", "/jobs")).json()
    assert ([each["id"] for each in page["jobs"]], page["next"]) == ([job], None)


async def test_an_edited_event_is_checked_and_becomes_a_job(ground: Ground) -> None:
    (letter,) = await ground.letters(1, event_type="thing.unknown")
    answer = await ground.post("ada", f"/events/{letter}/edit-replay", {"payload": {"order_id": "2"}, "reason": WHY})
    assert (answer.status_code, answer.json()["kind"]) == (202, "supersede")
    assert [each[:3] for each in await ground.audit()] == [("ada", "edit_replay", "done")]


async def test_a_discard_is_approved_by_another_person(ground: Ground) -> None:
    ids = await ground.letters(2)
    asked = await ground.post("otto", "/discard", {"event_id": ids, "reason": WHY})
    assert asked.status_code == 202
    approval = asked.json()
    assert await ground.statuses() == ["DISCARD_REQUESTED"] * 2
    seen = (await ground.get("sue", f"/approvals/{approval['id']}")).json()
    body = {"set_hash": seen["set_hash"], "reason": "I looked at both"}
    answer = await ground.post("sue", f"/approvals/{approval['id']}/approve", body)
    assert (answer.status_code, answer.json()["status"], answer.json()["decided_by"]) == (202, "APPROVED", "sue")
    job = (await ground.get("vera", f"/jobs/{answer.json()['job_id']}")).json()
    assert (job["kind"], job["total"]) == ("discard", 2)


async def test_a_refused_discard_opens_its_letters_again(ground: Ground) -> None:
    ids = await ground.letters(1)
    approval = (await ground.post("sue", "/discard", {"event_id": ids, "reason": WHY})).json()["id"]
    answer = await ground.post("sam", f"/approvals/{approval}/refuse", {"reason": "replay it"})
    assert (answer.status_code, answer.json()["status"]) == (200, "REFUSED")
    assert await ground.statuses() == ["OPEN"]
    page = (await ground.get("vera", "/approvals")).json()
    assert [each["id"] for each in page["approvals"]] == [approval]


async def test_a_second_click_is_answered_as_the_first_was_byte_for_byte(ground: Ground) -> None:
    body = {"event_id": await ground.letters(2), "reason": WHY}
    first = await ground.post("otto", "/replay", body, key="click-1")
    second = await ground.post("otto", "/replay", body, key="click-1")
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers["content-type"] == first.headers["content-type"] == "application/json"
    assert "x-idempotency-replayed" not in first.headers
    assert second.headers["x-idempotency-replayed"] == "true"
    assert await ground.count("dlq_jobs") == 1
    assert len(await ground.audit()) == 1


async def test_without_a_key_a_second_click_is_a_second_request(ground: Ground) -> None:
    body = {"event_id": await ground.letters(2), "reason": WHY}
    assert (await ground.post("otto", "/replay", body)).status_code == 202
    assert_problem(await ground.post("otto", "/replay", body), 409, "2 replaying")
    assert await ground.count("admin_requests") == 0


@pytest.mark.slow
async def test_twenty_clicks_at_once_make_one_job(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_S", 120)  # the first click may take long on a busy machine
    body = {"filter": {"status": "OPEN"}, "reason": WHY, "dry_run": True}
    await ground.letters(300)
    answers = await asyncio.gather(*(ground.post("otto", "/replay", body, key="click") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert sum("x-idempotency-replayed" in answer.headers for answer in answers) == 19
    assert await ground.count("dlq_jobs") == 1


async def test_while_the_first_is_worked_on_the_second_is_told_to_come_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "WAIT_S", 0.1)
    body = {"event_id": await ground.letters(1), "reason": WHY}
    async with ground.connection.transaction():
        await ground.connection.execute(
            "SELECT pg_advisory_xact_lock($1::int, hashtext($2))", ADMIN_REQUEST, "surefoot/click/otto"
        )
        answer = await ground.post("otto", "/replay", body, key="click")
    assert_problem(answer, 409, "is being worked on")
    assert answer.headers["retry-after"] == "1"
    assert (await ground.post("otto", "/replay", body, key="click")).status_code == 202


async def test_a_key_that_was_used_for_something_else_is_refused(ground: Ground) -> None:
    ids = await ground.letters(2)
    await ground.post("otto", "/replay", {"event_id": ids[:1], "reason": WHY}, key="click")
    other = await ground.post("otto", "/replay", {"event_id": ids[1:], "reason": WHY}, key="click")
    assert_problem(other, 422, "was used for another request")
    other = await ground.post("otto", "/discard", {"event_id": ids[:1], "reason": WHY}, key="click")
    assert_problem(other, 422, "was used for another request")
    assert await ground.statuses() == ["REPLAYING", "OPEN"]
    assert [each[1] for each in await ground.refused()] == ["replay", "discard"]


async def test_a_key_is_a_persons_own(ground: Ground) -> None:
    ids = await ground.letters(2)
    for person, wanted in (("otto", ids[:1]), ("ada", ids[1:])):
        answer = await ground.post(person, "/replay", {"event_id": wanted, "reason": WHY}, key="click")
        assert answer.json()["total"] == 1


async def test_what_was_refused_is_not_stored_and_can_be_tried_again(ground: Ground) -> None:
    (letter,) = await ground.letters(1, status="REPLAYING")
    body = {"event_id": [letter], "reason": WHY}
    assert_problem(await ground.post("otto", "/replay", body, key="click"), 409, "1 replaying")
    await ground.connection.execute("UPDATE surefoot.dlq_events SET status = 'OPEN'")
    assert (await ground.post("otto", "/replay", body, key="click")).status_code == 202


async def test_an_answer_that_cannot_be_stored_undoes_the_write(ground: Ground) -> None:
    """They are one transaction: there is never a job whose request would be done again."""
    body = {"event_id": await ground.letters(1), "reason": WHY}
    await ground.connection.execute("ALTER TABLE surefoot.admin_requests ADD CHECK (key <> 'click')")
    assert_problem(await ground.post("otto", "/replay", body, key="click"), 503, "")
    assert await ground.statuses() == ["OPEN"]
    assert (await ground.count("dlq_jobs"), await ground.audit()) == (0, [])


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\u00e9"])
async def test_a_key_that_is_none_is_refused(ground: Ground, key: str) -> None:
    headers = [(b"Authorization", f"Bearer {ground.tokens['otto']}".encode()), (b"Idempotency-Key", key.encode())]
    answer = await ground.client.post("/admin/dlq/replay", json={"event_id": ["x"], "reason": WHY}, headers=headers)
    assert_problem(answer, 422, "An Idempotency-Key is 1 to 255 printable characters")


async def test_one_person_has_so_many_jobs_under_way(database_url: str) -> None:
    async with ground_at(database_url, settings=DlqSettings(jobs_per_person=2)) as ground:
        ids = await ground.letters(3)
        for letter in ids[:2]:
            assert (await ground.post("otto", "/replay", {"event_id": [letter], "reason": WHY})).status_code == 202
        answer = await ground.post("otto", "/replay", {"event_id": ids[2:], "reason": WHY})
        assert_problem(answer, 429, "otto has 2 jobs under way")
        assert int(answer.headers["retry-after"]) > 0
        assert await ground.refused() == [("otto", "replay", "POST /admin/dlq/replay")]
        assert (await ground.post("ada", "/replay", {"event_id": ids[2:], "reason": WHY})).status_code == 202

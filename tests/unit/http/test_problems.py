"""Errors as problems: which function an exception is answered by, and what of the problem is written."""

from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from surefoot.http.problems import (
    Answer,
    Problem,
    answer_with_problems,
    http_error,
    invalid_parameters,
    told,
    with_reason,
    without_reason,
)


class Conflict(Exception):
    """It is taken."""


class Frozen(Conflict):
    """It is frozen."""


def app(answer: Answer = with_reason) -> FastAPI:
    made = FastAPI()

    @made.get("/raised/{name}")
    async def raised(name: str) -> None:
        kinds: dict[str, Exception] = {
            "frozen": Frozen("It is frozen."),
            "thawed": type("Thawed", (Frozen,), {})("It was frozen."),
            "taken": Conflict("It is taken."),
            "problem": Problem(402, "declined", "No money was taken.", retry_after_s=3, code="empty"),
        }
        raise kinds[name]

    @made.get("/many")
    async def get(numbers: Annotated[list[int], Query()]) -> None: ...

    @made.put("/many")
    async def put() -> None: ...

    table = {
        Conflict: told(409),
        Frozen: told(423, retry_after_s=7),
        HTTPException: http_error({405: "{method} is not possible at {path}."}, otherwise="{detail}!"),
        RequestValidationError: invalid_parameters(),
    }
    answer_with_problems(made, table, answer)
    return made


async def ask(app: FastAPI, method: str, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.request(method, path)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer


@pytest.mark.parametrize(
    ("name", "status", "reason", "detail"),
    [
        ("taken", 409, "Conflict", "It is taken."),
        ("frozen", 423, "Frozen", "It is frozen."),
        ("thawed", 423, "Thawed", "It was frozen."),
    ],
)
async def test_an_exception_is_answered_as_its_nearest_kind(name: str, status: int, reason: str, detail: str) -> None:
    answer = await ask(app(), "GET", f"/raised/{name}")
    titles = {409: "Conflict", 423: "Locked"}
    expected = {"type": "about:blank", "title": titles[status], "status": status, "detail": detail, "reason": reason}
    assert answer.json() == expected
    assert answer.headers.get("retry-after") == ("7" if status == 423 else None)


async def test_a_problem_that_is_raised_is_answered_with_its_further_members() -> None:
    answer = await ask(app(), "GET", "/raised/problem")
    assert (answer.status_code, answer.headers["retry-after"]) == (402, "3")
    assert (answer.json()["reason"], answer.json()["code"]) == ("declined", "empty")


async def test_an_app_may_leave_out_the_reason_or_look_at_a_problem_before_it_is_written() -> None:
    seen: list[Any] = []

    async def looked_at(request: Request, made: Problem) -> Response:
        seen.append((request.url.path, made.reason))
        return await without_reason(request, made)

    answer = await ask(app(looked_at), "GET", "/raised/taken")
    assert answer.json() == {"type": "about:blank", "title": "Conflict", "status": 409, "detail": "It is taken."}
    assert seen == [("/raised/taken", "Conflict")]


async def test_what_the_framework_refuses_is_said_in_the_apps_words_with_every_method_there_is() -> None:
    answer = await ask(app(), "DELETE", "/many")
    assert (answer.json()["detail"], answer.headers["allow"]) == ("DELETE is not possible at /many.", "GET, PUT")
    assert (await ask(app(), "GET", "/none")).json()["detail"] == "Not Found!"


async def test_of_many_mistakes_the_first_few_are_told() -> None:
    answer = await ask(app(), "GET", "/many?" + "&".join(f"numbers=x{n}" for n in range(8)))
    detail = answer.json()["detail"]
    assert detail.count("cannot be used") == 5
    assert detail.startswith("numbers.0 cannot be used: ")
    assert detail.endswith(". And 3 more like this.")

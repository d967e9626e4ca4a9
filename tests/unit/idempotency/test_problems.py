"""The layer's own answers: each has a type that is a page, a sentence, and what a client needs to go on."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

from starlette.responses import Response

from surefoot.idempotency.http.problems import PAGES, TITLES, ProblemName, ProblemPages, Problems
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.values import Answer, Answered, Gone, InFlight, Mismatch, Unknown

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PROBLEMS = Problems(IdempotencySettings())


def test_a_problem_says_what_is_wrong_and_where_more_is_written() -> None:
    answer = PROBLEMS.missing()
    assert answer.status == 400
    assert dict(answer.headers)["content-type"] == "application/problem+json"
    assert json.loads(answer.body) == {
        "type": "/problems/idempotency/key-missing",
        "title": "Idempotency-Key is missing",
        "status": 400,
        "detail": "This request needs an Idempotency-Key header: send a new random key with each new request, and the "
        "same key with each retry of it.",
    }


RESTS = {"outcome-unknown": "5", "store-unavailable": "2"}
"""What `Retry-After` says with these; with the others there is none."""
PROBLEMS_SAID: list[tuple[Answer, int, str, dict[str, Any]]] = [
    (PROBLEMS.malformed("no"), 400, "key-malformed", {"detail": "no"}),
    (PROBLEMS.found(Mismatch(AT)), 422, "key-reused", {"first_at": "2026-01-02T03:04:05+00:00"}),
    (PROBLEMS.found(Gone(AT)), 410, "key-expired", {"first_at": "2026-01-02T03:04:05+00:00"}),
    (PROBLEMS.found(Unknown("ch_1", 3)), 504, "outcome-unknown", {"resource": "ch_1"}),
    (PROBLEMS.store_unavailable(), 503, "store-unavailable", {}),
    (PROBLEMS.body_too_large(), 413, "body-too-large", {}),
    (PROBLEMS.answer_too_large("ch_1"), 500, "answer-too-large", {"resource": "ch_1"}),
    (PROBLEMS.failed(), 500, "failed", {}),
]


def test_each_problem_has_its_status_and_members() -> None:
    for answer, status, name, members in PROBLEMS_SAID:
        body = json.loads(answer.body)
        assert (answer.status, body["status"], body["type"]) == (status, status, f"/problems/idempotency/{name}")
        assert members.items() <= body.items(), name
        headers = dict(answer.headers)
        assert (headers["cache-control"], headers.get("retry-after")) == ("no-store", RESTS.get(name)), name
    assert "resource" not in json.loads(PROBLEMS.outcome_unknown(None, 1).body)
    assert Problems(IdempotencySettings(mismatch_status=409)).reused(AT).status == 409


def test_a_request_that_comes_too_early_is_told_when_to_come_back() -> None:
    rests = {0: "1", 0.2: "1", 2.5: "3", 30: "5"}
    assert {left: dict(PROBLEMS.found(InFlight(left)).headers)["retry-after"] for left in rests} == rests


def test_a_replay_is_the_answer_and_says_what_it_is() -> None:
    answer = Answer(201, (("x-thing", "1"),), b"body")
    again = PROBLEMS.found(Answered(answer))
    assert again == Answer(201, (("x-thing", "1"), ("x-idempotency-replayed", "true")), b"body")


def test_every_problem_has_a_title_and_a_page() -> None:
    names = set(get_args(ProblemName))
    assert set(TITLES) == set(PAGES) == names


def _scope(path: str, *, accept: bytes = b"*/*", method: str = "GET", root_path: str = "") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "root_path": root_path, "headers": [(b"accept", accept)]}


def _media_type(page: Response | None) -> str:
    assert page is not None
    return page.headers["content-type"].partition(";")[0]


def test_pages_are_where_the_types_say() -> None:
    pages = ProblemPages("/problems/idempotency")
    assert _media_type(pages.find(_scope("/problems/idempotency/in-flight"))) == "text/html"
    assert _media_type(pages.find(_scope("/api/problems/idempotency/in-flight", root_path="/api"))) == "text/html"
    markdown = pages.find(_scope("/problems/idempotency/in-flight", accept=b"text/markdown, text/html;q=0.5"))
    assert _media_type(markdown) == "text/markdown"
    assert pages.find(_scope("/problems/idempotency/other")) is None
    assert pages.find(_scope("/problems/idempotency")) is None
    assert pages.find(_scope("/else")) is None
    assert pages.find(_scope("/problems/idempotency/in-flight", method="OPTIONS")) is None


def test_pages_of_types_on_another_host_are_served_at_their_path() -> None:
    problems = Problems(IdempotencySettings(docs="https://docs.example.com/idempotency/"))
    kind = json.loads(problems.missing().body)["type"]
    assert kind == "https://docs.example.com/idempotency/key-missing"
    assert ProblemPages("https://docs.example.com/idempotency/").find(_scope("/idempotency/key-missing")) is not None

"""Everything the OpenAPI document allows, and much that it does not, thrown at a real server: it is never broken by it,
and never answers in a way that the document does not say."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import requests
import schemathesis

from schemas import catalogue
from surefoot.admin import api
from surefoot.audit.access import Access
from surefoot.audit.settings import AccessSettings
from surefoot.dlq.settings import DlqSettings
from surefoot.http.server import HttpService
from tests.support.dlq.http_harness import GENEROUS, WHY, ground_at
from tests.support.operations import Case, Operation, each_operation, is_made_up, status_of, try_operation

pytestmark = pytest.mark.proof

MANY_JOBS = DlqSettings(jobs_per_person=1_000_000)


def document() -> dict[str, Any]:
    app = api("postgresql://nobody@127.0.0.1/none", "surefoot", MANY_JOBS, Access(AccessSettings()), catalogue)
    written: dict[str, Any] = _without_tuples(app.openapi())
    return written


def _without_tuples(part: Any) -> Any:
    """The tool turns `prefixItems` into what its own validator refuses. A pair is a list of two for it."""
    if isinstance(part, list):
        return [_without_tuples(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {name: _without_tuples(each) for name, each in part.items() if name != "prefixItems"}
    return {**kept, "items": {"anyOf": part["prefixItems"]}} if "prefixItems" in part else kept


schema = schemathesis.openapi.from_dict(document())


class Served:
    """The service at a port, in a thread of its own, with letters, jobs and an approval in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.at = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.token = self.set_hash = ""
        self.ids: dict[str, str] = {}
        self.statuses: set[int] = set()

    def __enter__(self) -> "Served":
        asyncio.run(self._seed())
        access = Access(AccessSettings(**GENEROUS))
        self._service = HttpService(api(self._url, "surefoot", MANY_JOBS, access, catalogue), self._listener)
        self._thread = threading.Thread(target=asyncio.run, args=(self._service.run(),))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._service.stop()
        self._thread.join()
        self._listener.close()

    async def _seed(self) -> None:
        async with ground_at(self._url) as ground:
            letters = await ground.letters(30, value=b'{"order_id": "\\u0000", "n": 100000000000000000000}')
            jobs = [
                (await ground.post("otto", "/replay", {"event_id": [letter], "reason": WHY})).json()["job_id"]
                for letter in letters[:3]
            ]
            running, paused, cancelled = jobs
            await ground.post("otto", f"/jobs/{paused}/pause", {"reason": WHY})
            await ground.post("otto", f"/jobs/{cancelled}/cancel", {"reason": WHY})
            approval = (await ground.post("otto", "/discard", {"event_id": letters[3:5], "reason": WHY})).json()
            self.token, self.set_hash = ground.tokens["sue"], approval["set_hash"]
            self.ids = {"events": letters[20], "jobs": paused, "approvals": approval["id"]}
            self.ids |= {"pause": running, "abandon": cancelled}

    def ask(self, case: Case) -> None:
        self.statuses.add(status_of(case, self.at, self._session, {"Authorization": f"Bearer {self.token}"}))


@pytest.fixture
def served(database_url: str) -> Iterator[Served]:
    with Served(database_url) as served:
        yield served


@each_operation(schema, expected=24)
def test_nothing_breaks_it_and_every_answer_is_documented(operation: Operation, served: Served) -> None:
    def ask(case: Case) -> None:
        about_something_that_is_there(case, served)
        served.ask(case)

    try_operation(operation, ask)

    # Otherwise all requests were about things that do not exist, and no answer of substance was checked.
    assert served.statuses & {200, 202}


def about_something_that_is_there(case: Case, served: Served) -> None:
    """Replace an id that fits by one that exists: always in the document's own cases, in half of the made-up ones.

    So each operation answers with substance in every run. What is meant to be wrong stays wrong.
    """
    given = _uuid((case.path_parameters or {}).get("id"))
    if given is not None and (given.int % 2 or not is_made_up(case)):
        words = case.path.split("/")
        case.path_parameters["id"] = served.ids.get(words[-1]) or served.ids[words[3]]
    if len(str((case.path_parameters or {}).get("fingerprint", ""))) == 1:
        case.path_parameters["fingerprint"] = "f" * 16
    body: Any = case.body
    if isinstance(body, dict) and isinstance(body.get("event_id"), list) and len(body["event_id"]) == 1:
        body["event_id"] = [served.ids["events"]]
    if isinstance(body, dict) and re.fullmatch("[0-9a-f]{64}", str(body.get("set_hash"))):
        body["set_hash"] = served.set_hash


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError):
        return None

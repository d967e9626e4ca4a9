"""Everything the OpenAPI document allows, and much that it does not, thrown at a real server: it is never broken by it,
and never answers in a way that the document does not say."""

import asyncio
import itertools
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis

from services.payment.api.app import Parts, PaymentsService, api
from services.payment.gateway import Barred, Charged, Declined, Refunded, Voided
from services.tables import create_tables
from surefoot.events import Money
from surefoot.idempotency import Store
from tests.support.operations import Case, Operation, each_operation, is_made_up, status_of, try_operation
from tests.support.services.payment_api_harness import ACCESS, EUR_20, authorised, new_key
from tests.support.services.payment_api_harness import settings as layer_settings

pytestmark = pytest.mark.proof


class Obliging:
    """A provider that declines what ends in 13, and takes everything else."""

    name = "obliging"

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def charge(self, key: str, order_id: str, amount: Money) -> Charged | Declined | Barred:
        return Declined("declined") if amount.minor_units % 100 == 13 else Charged(f"txn-{next(self._numbers)}")

    async def void(self, key: str) -> Voided:
        return Voided(None, None)

    async def refund(self, refund_request_id: str, charge_id: str, amount: Money) -> Refunded:
        return Refunded(f"refund-{next(self._numbers)}")


def parts(url: str) -> Parts:
    layer = layer_settings()
    return Parts(url, Store(url, layer), layer, ACCESS, Obliging())


schema = schemathesis.openapi.from_dict(api(parts("postgresql://nobody@127.0.0.1/none")).openapi())


class Served:
    """The API at a port, in a thread of its own, with a charge and two accounts in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.at = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.ids: dict[str, str] = {}
        self.statuses: set[int] = set()

    def __enter__(self) -> "Served":
        ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(ready),))
        self._thread.start()
        assert ready.wait(30)
        self._seed()
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._loop.call_soon_threadsafe(self._service.stop)
        self._thread.join()
        self._listener.close()

    async def _run(self, ready: threading.Event) -> None:
        await create_tables(self._url, "payment")
        await create_tables(self._url, "ledger")
        self._loop = asyncio.get_running_loop()
        self._service = PaymentsService(parts(self._url), self._listener)
        ready.set()
        await self._service.run()

    def _seed(self) -> None:
        with httpx.Client(base_url=self.at, headers=authorised(), timeout=30, trust_env=False) as client:
            charge = client.post("/v1/charges", json={"amount": EUR_20}, headers={"Idempotency-Key": new_key()})
            assert charge.status_code == 201, charge.text
            self.ids["charge_id"] = charge.json()["id"]
            body = {"charge_id": self.ids["charge_id"], "amount": {"minor_units": 1, "currency": "EUR"}}
            refund = client.post("/v1/refunds", json=body, headers={"Idempotency-Key": new_key()})
            self.ids["refund_id"] = refund.json()["id"]
            assert client.put("/v1/accounts/savings", json={"currency": "EUR"}).status_code == 200

    def ask(self, case: Case) -> None:
        self.statuses.add(status_of(case, self.at, self._session, authorised()))


@pytest.fixture
def served(database_url: str) -> Iterator[Served]:
    with Served(database_url) as served:
        yield served


@each_operation(schema, expected=8)
def test_nothing_breaks_it_and_every_answer_is_documented(operation: Operation, served: Served) -> None:
    def ask(case: Case) -> None:
        about_something_that_is_there(case, served)
        served.ask(case)

    try_operation(operation, ask)

    # Otherwise all requests were about things that do not exist, and no answer of substance was checked.
    assert served.statuses & {200, 201}


def about_something_that_is_there(case: Case, served: Served) -> None:
    """Replace an id that fits by one that exists: always in the document's own cases, in some of the made-up ones.

    So each operation answers with substance in every run. What is meant to be wrong mostly stays wrong.
    """
    is_there = not is_made_up(case)
    for name, there in served.ids.items():
        given = (case.path_parameters or {}).get(name)
        if isinstance(given, str) and (is_there or len(given) % 2):
            case.path_parameters[name] = there
    if isinstance((case.path_parameters or {}).get("name"), str) and len(case.path_parameters["name"]) == 1:
        case.path_parameters["name"] = "main-EUR"
    body: Any = case.body
    if not isinstance(body, dict):
        return
    if isinstance(body.get("amount"), dict) and isinstance(body["amount"].get("currency"), str):
        body["amount"]["currency"] = "EUR"
    if isinstance(body.get("charge_id"), str) and (is_there or len(body["charge_id"]) == 1):
        body["charge_id"] = served.ids["charge_id"]
    if isinstance(body.get("source"), str) and isinstance(body.get("target"), str) and len(body["source"]) == 1:
        body.update(source="main-EUR", target="savings")
    if isinstance(body.get("currency"), str) and len(body["currency"]) == 3:
        body["currency"] = "EUR"

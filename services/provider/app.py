"""The provider's HTTP API, and the process that serves it. What it does is in the ledger before it answers; then it may
be told not to."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer
from fastapi import FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from services.front_door import MOST_BYTES, TOO_LARGE
from services.provider.behaviour import DeclineReason, Operation, Rule, Shares, applying
from services.provider.ledger import Ledger
from services.provider.messages import BehaviourAsked, Charge, ChargeAsked, Code, Problem, RefundAsked, VoidAsked
from services.tables import create_tables
from surefoot.cli.process import serve
from surefoot.database.connection import DRIVER_ERRORS, create_pool, is_outage
from surefoot.errors import SurefootError
from surefoot.http.listening import url_of
from surefoot.http.middleware import BodyLimit
from surefoot.http.server import HttpService

STATUS: dict[Code, int] = {
    "declined": 402,
    "voided": 409,
    "key_reused": 422,
    "request_reused": 422,
    "exceeds_captured": 409,
    "unknown_charge": 404,
    "invalid": 422,
}
CONNECTIONS = 16
GOODBYE_S = 2
Work = Callable[[], Awaitable[Response]]


class Desk:
    """Whoever takes the requests: knows the rules, and when to stop keeping somebody waiting."""

    def __init__(self, ledger: Ledger, rules: list[Rule], standing: list[Rule]) -> None:
        self.ledger = ledger
        self.rules = rules
        """Those given by POST /behaviour; they come first."""
        self.standing = standing
        """Those given at the start."""
        self.stopping = asyncio.Event()

    async def rule_for(self, operation: Operation, order_id: str | None, key: str) -> Rule | None:
        for rule in applying([*self.rules, *self.standing], operation, order_id, key):
            # A decline is not counted: the ledger remembers it, and if we die before that, it has to come again.
            if rule.behaviour == "decline" or await self.ledger.use(rule, operation, key):
                return rule
        return None

    async def answer(self, request: Request, rule: Rule | None, work: Work) -> Response:
        """Do the work and answer, or misbehave as the rule says."""
        behaviour = None if rule is None else rule.behaviour
        if behaviour == "error_before":
            return _broken("before")
        response = await work()
        if behaviour == "error_after":
            return _broken("after")
        if behaviour == "timeout_after":
            await self._keep_waiting(request, None)
            return _broken("after")
        if rule is not None and behaviour == "late":
            await self._keep_waiting(request, rule.delay_ms / 1000)
        return response

    async def _keep_waiting(self, request: Request, for_s: float | None) -> None:
        """Until the caller has gone, the time is over, or the provider is to stop."""
        waits = {asyncio.create_task(_gone(request)), asyncio.create_task(self.stopping.wait())}
        await asyncio.wait(waits, timeout=for_s, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()


def create_app(desk: Desk) -> FastAPI:
    app = FastAPI(title="A simulated payment provider", docs_url="/docs", redoc_url=None)
    refusal = JSONResponse({"code": "too_large", "sentence": TOO_LARGE}, 413)
    app.add_middleware(BodyLimit, refusal=refusal, most_bytes=MOST_BYTES)
    _add_money_routes(app, desk)
    _add_reading_routes(app, desk)

    async def invalid(_: Request, error: Exception) -> Response:
        return _problem(Problem(code="invalid", sentence=_sentence(error)))

    async def away(_: Request, error: Exception) -> Response:
        status = 503 if is_outage(error) else 500
        return JSONResponse({"code": "unavailable", "sentence": f"The ledger cannot be used: {error}"}, status)

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(SurefootError, invalid)
    for kind in DRIVER_ERRORS:
        app.add_exception_handler(kind, away)
    return app


def _add_money_routes(app: FastAPI, desk: Desk) -> None:
    @app.post("/charges", status_code=201)
    async def charge(
        asked: ChargeAsked, request: Request, idempotency_key: Annotated[str, Header(min_length=1, max_length=200)]
    ) -> Response:
        """Take money, once for each Idempotency-Key. 402: declined. 409: the key was voided. 422: it was used for
        something else."""
        rule = await desk.rule_for("charge", asked.order_id, idempotency_key)
        decline: DeclineReason | None = None
        if rule is not None and rule.behaviour == "decline":
            decline = rule.decline_of(asked.order_id)

        async def work() -> Response:
            return _charge_answer(await desk.ledger.charge(idempotency_key, asked, decline))

        return await desk.answer(request, rule, work)

    @app.post("/charges/void")
    async def void(asked: VoidAsked, request: Request) -> Response:
        """Undo the charge of this key, whatever became of it: give its money back, or never take any."""
        known = await desk.ledger.find(asked.key)
        rule = await desk.rule_for("void", None if known is None else known.order_id, asked.key)

        async def work() -> Response:
            return _json(await desk.ledger.void(asked.key))

        return await desk.answer(request, rule, work)

    @app.post("/refunds", status_code=201)
    async def refund(asked: RefundAsked, request: Request) -> Response:
        """Give back a part of a charge, once for each refund_request_id. 409: it is more than what is left."""
        order_id = await desk.ledger.order_of(asked.charge_id)
        rule = await desk.rule_for("refund", order_id, asked.refund_request_id)

        async def work() -> Response:
            done = await desk.ledger.refund(asked)
            return _problem(done) if isinstance(done, Problem) else _json(done, 201)

        return await desk.answer(request, rule, work)


def _add_reading_routes(app: FastAPI, desk: Desk) -> None:
    @app.get("/charges/{key}")
    async def read(key: str) -> Response:
        found = await desk.ledger.find(key)
        if found is None:
            return _problem(Problem(code="unknown_charge", sentence=f"Nothing was ever asked for with the key {key}."))
        return _json(found)

    @app.get("/ledger")
    async def ledger() -> Response:
        """Sums by currency, for whoever checks the books."""
        return _json(await desk.ledger.totals())

    @app.post("/behaviour", status_code=201)
    async def behaviour(asked: BehaviourAsked) -> Response:
        """Misbehave towards an order, a key, or a share of all orders; so many times for each key."""
        rule = await desk.ledger.add_rule(asked)
        desk.rules.append(rule)
        return JSONResponse({"rule": rule.name}, 201)


def _charge_answer(done: Charge | Problem) -> Response:
    if isinstance(done, Problem):
        return _problem(done)
    if done.status == "DECLINED":
        return _problem(Problem(code="declined", sentence="The charge was declined.", reason=done.reason))
    return _json(done, 201)


def _json(message: BaseModel, status: int = 200) -> Response:
    return Response(message.model_dump_json(), status, media_type="application/json")


def _problem(problem: Problem) -> Response:
    return _json(problem, STATUS[problem.code])


def _broken(when: str) -> Response:
    return JSONResponse({"code": "broken", "sentence": f"It broke {when} the work, as it was told to."}, 500)


def _sentence(error: Exception) -> str:
    if not isinstance(error, RequestValidationError):
        return str(error)
    first: dict[str, Any] = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class ProviderService(HttpService):
    def __init__(self, desk: Desk, listener: socket.socket) -> None:
        def announce() -> None:
            typer.echo(f"The provider is at {url_of(listener)} (Ctrl-C stops it)")
            sys.stdout.flush()

        super().__init__(create_app(desk), listener, goodbye_s=GOODBYE_S, when_started=announce)
        self._desk = desk

    def stop(self) -> None:
        self._desk.stopping.set()
        super().stop()


async def serve_provider(url: str, shares: Shares, listener: socket.socket) -> None:
    await create_tables(url, "provider")
    pool = await create_pool(url, name="surefoot provider", size=CONNECTIONS)
    try:
        ledger = Ledger(pool)
        desk = Desk(ledger, await ledger.rules(), shares.rules())
        await serve(ProviderService(desk, listener))
    finally:
        await pool.close()

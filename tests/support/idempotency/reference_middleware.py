"""What is around the reference app: who asks, what is refused before any work, and where errors end."""

import logging

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefoot.idempotency import resumed_tenant

log = logging.getLogger(__name__)
TENANTS = {"Bearer one": "one", "Bearer two": "two"}


class Door:
    """Who asks, and what is refused before any work."""

    def __init__(self, app: ASGIApp, largest_body: int) -> None:
        self._app = app
        self._largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/problems/"):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        tenant = resumed_tenant(scope) or TENANTS.get(request.headers.get("authorization", ""))
        refusal = None if tenant else 401
        if request.headers.get("x-over-limit"):
            refusal = 429
        elif int(request.headers.get("content-length", 0)) > self._largest_body:
            refusal = 413
        elif request.method not in ("GET", "HEAD") and scope["path"] != "/raw" and not _is_json(request):
            refusal = 415
        if refusal is not None:
            await JSONResponse({"detail": "refused"}, refusal)(scope, receive, send)
            return
        scope.setdefault("state", {})["tenant"] = tenant
        await self._app(scope, receive, send)


class Quiet:
    """Errors that have been answered stay here: uvicorn would close the connection of whoever got the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_over = False

        async def watched(message: Message) -> None:
            nonlocal is_over
            await send(message)
            is_over = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if not is_over:
                raise
            log.exception("a request failed, and was answered")


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"

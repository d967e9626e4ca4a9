"""The target's routes on the PyPI package asgi-idempotency-header, with its backend in memory: the suite's control.

Runs by itself in an environment of its own, so it imports nothing of this repository. Its routes do the work as a
reasonable user of that package would write it; what the package does not offer (keys that are required, windows,
choices per route) is not written for it here.
"""

import asyncio
import hashlib
import json
import socket
import uuid
from collections import Counter
from datetime import UTC, datetime

import uvicorn
from idempotency_header_middleware import IdempotencyHeaderMiddleware  # type: ignore[import-not-found]
from idempotency_header_middleware.backends import MemoryBackend  # type: ignore[import-not-found]
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

LARGEST_BODY = 1024 * 1024
TENANTS = {"Bearer one": "one", "Bearer two": "two"}

runs: Counter[str] = Counter()
effects: Counter[str] = Counter()
looks = 0


async def work(request: Request) -> Response:
    refusal = refused(request)
    if refusal is not None:
        return refusal
    if request.headers.get("content-type", "").partition(";")[0].lower() != "application/json":
        return JSONResponse({"detail": "json only"}, 415)
    try:
        asked = json.loads(await request.body())
    except ValueError:
        return JSONResponse({"detail": "not json"}, 400)
    if not isinstance(asked, dict) or not isinstance(asked.get("amount"), (int, float)) or "mark" not in asked:
        return JSONResponse({"detail": "mark and amount"}, 422)
    mark = asked["mark"]
    runs[mark] += 1
    await asyncio.sleep(asked.get("delay_ms", 0) / 1000)
    status = asked.get("status", 201) if runs[mark] <= asked.get("times", 1_000_000) else 201
    outside = request.url.path.startswith("/outside")
    if (status < 400 and status != 0) or (outside and (status >= 500 or status == 0)):
        effects[mark] += 1
    if outside and asked.get("provider") == "no_answer" and runs[mark] <= asked.get("times", 1_000_000):
        return JSONResponse({"detail": "the provider does not answer"}, 504)
    if status == 0:
        raise RuntimeError("the work failed, as it was told to")
    return answer(asked, status)


def refused(request: Request) -> "Response | None":
    token = request.headers.get("authorization", "")
    if token not in TENANTS:
        return JSONResponse({"detail": "who are you?"}, 401)
    if request.headers.get("x-over-limit"):
        return JSONResponse({"detail": "too many"}, 429)
    if int(request.headers.get("content-length", 0)) > LARGEST_BODY:
        return JSONResponse({"detail": "too large"}, 413)
    return None


def answer(asked: dict, status: int) -> Response:  # type: ignore[type-arg]
    thing = uuid.uuid4().hex
    made = {"id": thing, "at": datetime.now(UTC).isoformat(), "mark": asked["mark"], "amount": asked["amount"]}
    kind = asked.get("kind", "json")
    if kind == "empty":
        response = Response(status_code=status)
    elif kind == "text":
        response = Response(f"<p>☕ {thing}</p>", status, media_type="text/html")
    elif kind == "binary":
        response = Response(bytes(range(256)) + thing.encode(), status, media_type="application/octet-stream")
    elif kind == "spaced":
        body = f'{{ "id" : "{thing}",\n  "amount":   100.0 }}'
        response = Response(body, status, media_type="application/json")
    else:
        response = JSONResponse(made, status)
    response.headers["location"] = f"/things/{thing}"
    response.headers["x-thing"] = thing
    response.headers.append("link", f"</things/{thing}>; rel=self")
    response.headers.append("link", "</things>; rel=collection")
    response.set_cookie("seen", thing)
    return response


async def raw(request: Request) -> Response:
    refusal = refused(request)
    if refusal is not None:
        return refusal
    content = await request.body()
    mark = request.query_params["mark"]
    runs[mark] += 1
    effects[mark] += 1
    said = {"id": uuid.uuid4().hex, "length": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return JSONResponse(said, 201)


async def look(request: Request) -> Response:
    global looks
    looks += 1
    return JSONResponse({"look": looks}, headers={"x-look": str(looks)})


async def counted(request: Request) -> Response:
    mark = request.query_params["mark"]
    return JSONResponse({"runs": runs[mark], "effects": effects[mark]})


WORK = (
    "/local/{part}",
    "/outside",
    "/replayed-failures",
    "/outside-replayed",
    "/optional",
    "/counted",
    "/off",
    "/short-replay",
    "/short-gone",
)
app = Starlette(
    routes=[
        Route("/local", look, methods=["GET", "HEAD"]),
        Route("/local", work, methods=["POST", "PATCH"]),
        *(Route(path, work, methods=["POST"]) for path in WORK),
        Route("/raw", raw, methods=["POST"]),
        Route("/effects", counted),
    ],
    middleware=[
        Middleware(IdempotencyHeaderMiddleware, backend=MemoryBackend(), replay_header_key="X-Idempotency-Replayed")
    ],
)

if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_keep_alive=75)
    uvicorn.Server(config).run(sockets=[listener])

"""The payments API as one process: HTTP, the completer of abandoned requests, and housekeeping. If one ends, all do."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import structlog

from services.payment.api.app import Parts, api
from surefoot.http.server import HttpService
from surefoot.idempotency import Completer, Housekeeping

log = structlog.get_logger("surefoot.payments_api")


class PaymentsService:
    """Serves at a socket that listens already, until it is stopped: then requests under way are finished first."""

    def __init__(self, parts: Parts, listener: socket.socket) -> None:
        self._store = parts.store
        self._stopping = asyncio.Event()
        app = api(parts)
        self._http = HttpService(app, listener)
        self._completer = Completer(app, parts.store, parts.idempotency, alerts=parts.alerts)
        self._housekeeping = Housekeeping(parts.store, parts.idempotency, alerts=parts.alerts)

    @property
    def has_started(self) -> bool:
        return self._http.has_started

    def stop(self) -> None:
        self._http.stop()
        self._stopping.set()

    async def run(self) -> None:
        work: list[Coroutine[Any, Any, None]] = [
            self._http.run(),
            self._completer.run(self._stopping),
            self._housekeeping.run(self._stopping),
        ]
        async with self._store:
            tasks = [asyncio.create_task(one) for one in work]
            for task in tasks:
                task.add_done_callback(lambda _: self.stop())
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one

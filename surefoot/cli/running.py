"""Running a coroutine from a command, on uvloop, ended cleanly by Ctrl-C or a TERM signal."""

import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")


class Service(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


def run(work: Coroutine[Any, Any, T]) -> T:
    if sys.platform == "win32":
        import asyncio

        return asyncio.run(work)
    import uvloop

    result: T = uvloop.run(work)
    return result


async def serve(service: Service) -> None:
    """Run a service until it ends or a signal asks it to stop; a second signal ends it at once."""
    from asyncio import get_running_loop

    loop = get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, service, loop)
    await service.run()


def _stop(service: Service, loop: "AbstractEventLoop") -> None:
    service.stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
    signal.signal(signal.SIGINT, signal.default_int_handler)

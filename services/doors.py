"""The front doors of checkout, order and returns at one address: the first word of the path says whose it is."""

from starlette.types import ASGIApp, Receive, Scope, Send

from services.checkout import http as checkout
from services.order import http as order
from services.returns import http as returns
from services.settings import ServiceSettings


def front_doors(settings: ServiceSettings) -> ASGIApp:
    doors = {"checkout": checkout.app(settings), "orders": order.app(settings), "returns": returns.app(settings)}
    otherwise = doors["orders"]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        first = str(scope.get("path", "")).strip("/").partition("/")[0]
        await doors.get(first, otherwise)(scope, receive, send)

    return app

"""The read API as a service that can be stopped."""

import socket

from surefoot.http.server import HttpService
from surefoot.orchestrator.http import api


class ReadApi(HttpService):
    def __init__(self, url: str, schema: str, listener: socket.socket) -> None:
        super().__init__(api(url, schema), listener)

"""The admin service over HTTP."""

from dlq.http.app import api
from dlq.http.operation import PREFIX

__all__ = ["PREFIX", "api"]

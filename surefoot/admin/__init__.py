"""The admin service over HTTP."""

from surefoot.admin.app import api
from surefoot.admin.operation import PREFIX

__all__ = ["PREFIX", "api"]

"""A request to the target, as a value that can be sent again or changed in one place."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Ask:
    path: str
    body: Mapping[str, Any] | bytes
    key: str | bytes | None
    mark: str
    """Runs and effects are counted under it."""
    method: str = "POST"
    query: str = ""
    who: Mapping[str, str] | None = None
    """Headers of the tenant; None is the first one."""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(dict(self.body)).encode()

    def but(self, **changes: Any) -> "Ask":
        """The same request, changed in these parts."""
        return replace(self, **changes)

    def with_body(self, **changes: Any) -> "Ask":
        """The same request with other members in its body."""
        assert not isinstance(self.body, bytes)
        return replace(self, body={**self.body, **changes})


def ask(path: str = "/local", **members: Any) -> Ask:
    """A new request with a key and a mark of its own."""
    mark = f"mark-{uuid.uuid4().hex}"
    return Ask(path, {"mark": mark, "amount": 100, **members}, new_key(), mark)


def ask_raw(content: bytes, content_type: str) -> Ask:
    """A new request whose body is not looked into."""
    mark = f"mark-{uuid.uuid4().hex}"
    return Ask("/raw", content, new_key(), mark, query=f"mark={mark}", content_type=content_type)


def new_key(length: int = 36) -> str:
    """Of characters that need no quoting."""
    made = "".join(str(uuid.uuid4()) for _ in range(length // 36 + 1))
    return made[:length]

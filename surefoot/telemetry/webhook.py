"""Where alerts are posted to, signed by what, and in which shape: our own JSON, or the text that Slack and services
that take its form show in a channel.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from surefoot.webhooks.standard import signed_headers

Shape = Literal["json", "slack"]
SLACK_LIMIT = 3000


def body_of(shape: Shape, *, code: str, sentence: str, details: Mapping[str, str], suppressed: int) -> bytes:
    match shape:
        case "json":
            body: dict[str, object] = {
                "code": code,
                "sentence": sentence,
                "details": dict(details),
                "suppressed": suppressed,
            }
        case "slack":
            body = {"text": _text(code, sentence, details, suppressed)}
        case _:
            assert_never(shape)
    # Escaped to ASCII, so that half of a surrogate pair in an error's text cannot keep an alert from being sent.
    return json.dumps(body, separators=(",", ":")).encode()


def _text(code: str, sentence: str, details: Mapping[str, str], suppressed: int) -> str:
    lines = [f"*{_escaped(code)}*: {_escaped(sentence)}"]
    lines += [f"{_escaped(name)}: {_escaped(value)}" for name, value in details.items()]
    if suppressed:
        lines.append(f"({suppressed} more like it were not posted.)")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Slack gives three characters a meaning: <!channel> in an event's text would call everybody."""
    return text[:SLACK_LIMIT].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str
    shape: Shape = "json"
    key: bytes | None = field(default=None, repr=False)
    """Signs what is posted; None for a receiver that does not look at signatures."""

    def headers(self, body: bytes, *, message_id: str, at: int) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if self.key is not None:
            headers |= signed_headers(self.key, message_id=message_id, at=at, body=body)
        return headers

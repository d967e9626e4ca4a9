"""Where alerts are posted to, in which shape, and signed by what."""

from dataclasses import dataclass, field

from surefoot.telemetry.webhook_body import Shape
from surefoot.webhooks.standard import signed_headers


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

"""What the layer itself answers, as application/problem+json (RFC 9457), and the pages that explain it. Pure.

The type of a problem is the address of its page: what happened, and what to do. The page is HTML, or Markdown for a
client that prefers it.
"""

import math
from datetime import datetime
from html import escape
from typing import Any, Literal, assert_never
from urllib.parse import urlsplit

import orjson
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.values import Answer, Answered, Found, Gone, InFlight, Mismatch, Unknown

MEDIA_TYPE = "application/problem+json"
REPLAYED = ("x-idempotency-replayed", "true")
LONGEST_REST_S = 5
"""A client whose request is in flight is asked to come back after so long at most: most work is done by then."""
STORE_REST_S = 2
_MARKDOWN = "text/markdown"
ProblemName = Literal[
    "key-missing",
    "key-malformed",
    "key-reused",
    "in-flight",
    "key-expired",
    "outcome-unknown",
    "store-unavailable",
    "body-too-large",
    "answer-too-large",
    "failed",
]
TITLES: dict[ProblemName, str] = {
    "key-missing": "Idempotency-Key is missing",
    "key-malformed": "Idempotency-Key cannot be read",
    "key-reused": "Idempotency-Key was used for another request",
    "in-flight": "A request with this Idempotency-Key is in flight",
    "key-expired": "Idempotency-Key has expired",
    "outcome-unknown": "The outcome is not known yet",
    "store-unavailable": "Idempotency-Keys cannot be looked up",
    "body-too-large": "The request is too large",
    "answer-too-large": "The answer is too large to be kept",
    "failed": "The work failed",
}


class Problems:
    """Makes them, as the settings say."""

    def __init__(self, settings: IdempotencySettings) -> None:
        self._docs = settings.docs.rstrip("/")
        self._mismatch_status = settings.mismatch_status
        self._largest_body = settings.largest_body

    def found(self, found: Found) -> Answer:
        """The answer for what was found under a key."""
        match found:
            case Answered(answer):
                return replayed(answer)
            case InFlight(lease_s):
                return self.in_flight(lease_s)
            case Mismatch(first_at):
                return self.reused(first_at)
            case Gone(first_at):
                return self.expired(first_at)
            case Unknown(resource, _):
                return self.outcome_unknown(resource, LONGEST_REST_S)
            case _:
                assert_never(found)

    def missing(self) -> Answer:
        return self._made(
            "key-missing",
            400,
            "This request needs an Idempotency-Key header: send a new random key with each new request, and the same "
            "key with each retry of it.",
        )

    def malformed(self, sentence: str) -> Answer:
        return self._made("key-malformed", 400, sentence)

    def reused(self, first_at: datetime) -> Answer:
        return self._made(
            "key-reused",
            self._mismatch_status,
            "This Idempotency-Key was used for another request. Nothing was done: send a new key with a new request.",
            first_at=_time(first_at),
        )

    def in_flight(self, lease_s: float) -> Answer:
        rest_s = min(LONGEST_REST_S, max(1, math.ceil(lease_s)))
        return self._made(
            "in-flight",
            409,
            "A request with this Idempotency-Key is being worked on. Send the same request again in a little while to "
            "get its answer.",
            rest_s=rest_s,
        )

    def expired(self, first_at: datetime) -> Answer:
        return self._made(
            "key-expired",
            410,
            "The answer to this Idempotency-Key is kept no longer. Look whether what you asked for is there; to ask "
            "for it once more, send a new key.",
            first_at=_time(first_at),
        )

    def outcome_unknown(self, resource: str | None, rest_s: float) -> Answer:
        return self._made(
            "outcome-unknown",
            504,
            "A provider was called and did not say what it did. It is being found out: send the same request again "
            "with the same Idempotency-Key to learn of it. With another key it might happen twice.",
            rest_s=max(1, math.ceil(rest_s)),
            **_members(resource),
        )

    def store_unavailable(self) -> Answer:
        return self._made(
            "store-unavailable",
            503,
            "What keeps Idempotency-Keys does not answer, and without it this could happen twice. Send the same "
            "request again with the same key.",
            rest_s=STORE_REST_S,
        )

    def body_too_large(self) -> Answer:
        return self._made(
            "body-too-large",
            413,
            f"A request with an Idempotency-Key may have {self._largest_body} bytes. Nothing was done: ask for less at "
            "once.",
        )

    def answer_too_large(self, resource: str | None) -> Answer:
        return self._made(
            "answer-too-large",
            500,
            f"The answer has more than the {self._largest_body} bytes that are kept under an Idempotency-Key. This is "
            "an error of the service.",
            **_members(resource),
        )

    def failed(self) -> Answer:
        return self._made("failed", 500, "The work failed, by an error of the service.")

    def _made(
        self, name: ProblemName, status: int, detail: str, *, rest_s: int | None = None, **members: Any
    ) -> Answer:
        body = {
            "type": f"{self._docs}/{name}",
            "title": TITLES[name],
            "status": status,
            "detail": detail,
            **members,
        }
        headers = [("content-type", MEDIA_TYPE), ("cache-control", "no-store")]
        if rest_s is not None:
            headers.append(("retry-after", str(rest_s)))
        return Answer(status, tuple(headers), orjson.dumps(body))


def replayed(answer: Answer) -> Answer:
    return Answer(answer.status, (*answer.headers, REPLAYED), answer.body)


def _members(resource: str | None) -> dict[str, Any]:
    return {} if resource is None else {"resource": resource}


def _time(at: datetime) -> str:
    return at.isoformat()


PAGES: dict[ProblemName, tuple[str, ...]] = {
    "key-missing": (
        "This operation is done once for each key, and the request had none.",
        "Send a header `Idempotency-Key` with a random value (a UUID in double quotes is good) that is new for each "
        "new request. Send the same value when you retry that request.",
    ),
    "key-malformed": (
        "The header `Idempotency-Key` was there, and could not be read: it was empty, sent twice, too short or too "
        "long, or had characters that it may not have. The member `detail` says which.",
        "A key has 16 to 255 visible ASCII characters, bare or as a text in double quotes. Nothing was done.",
    ),
    "key-reused": (
        "The key was used before, for another request: another method, path, query or body.",
        "Nothing was done, and the first request's answer is not given for this one. If this is a new request, send it "
        "with a new key. If it is a retry, send exactly what was sent first; `first_at` says when that was.",
    ),
    "in-flight": (
        "A request with this key is being worked on, and it took longer than we let another one wait for it.",
        "Send the same request with the same key again after the seconds in `Retry-After`: you get the answer as soon "
        "as there is one. Do not use a new key: it might happen twice.",
    ),
    "key-expired": (
        "The key was used so long ago that its answer is kept no longer. `first_at` says when that was.",
        "Look whether what you asked for is there. If it is not, ask for it with a new key.",
    ),
    "outcome-unknown": (
        "Somebody had to be called to do this, and the call ended without an answer: it may have been done, or not.",
        "We find out by ourselves, by asking again in a way that cannot do it twice. Send the same request with the "
        "same key again after the seconds in `Retry-After`, or look for `resource`, if it is there. Do not use a new "
        "key: it might happen twice.",
    ),
    "store-unavailable": (
        "What keeps the keys does not answer. Without it nobody could tell a retry from a new request.",
        "Send the same request with the same key again after the seconds in `Retry-After`. The first one may have been "
        "done: under its key it is not done again.",
    ),
    "body-too-large": (
        "A request with a key is kept until it is answered, so its size is bounded.",
        "Nothing was done. Ask for less at once.",
    ),
    "answer-too-large": (
        "An answer to a request with a key is kept to be given again, so its size is bounded; this one was larger.",
        "This is an error of the service. If `resource` is there, what you asked for may have been done.",
    ),
    "failed": (
        "The work failed by an error of the service.",
        "Send the same request with the same key again. If you get the same answer, the service keeps failures as they "
        "are: look whether what you asked for was done, and if not, ask with a new key.",
    ),
}


class ProblemPages:
    """Serves them where the types say they are."""

    def __init__(self, docs: str) -> None:
        self._path = urlsplit(docs).path.rstrip("/") + "/"

    def find(self, scope: Scope) -> Response | None:
        """The page at this path, if it is one of ours."""
        path: str = scope["path"]
        if not path.startswith(self._path):
            path = path.removeprefix(scope.get("root_path", ""))
            if not path.startswith(self._path):
                return None
        title = TITLES.get(name := path[len(self._path) :])  # type: ignore[call-overload]
        if title is None or scope["method"] not in ("GET", "HEAD"):
            return None
        paragraphs = PAGES[name]  # type: ignore[index]
        if _prefers_markdown(scope):
            text = f"# {title}\n\n" + "\n\n".join(paragraphs) + "\n"
            return Response(text, media_type=_MARKDOWN)
        return HTMLResponse(_html(title, paragraphs))


def _html(title: str, paragraphs: tuple[str, ...]) -> str:
    body = "\n".join(f"<p>{_code(paragraph)}</p>" for paragraph in paragraphs)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )


def _code(paragraph: str) -> str:
    parts = escape(paragraph).split("`")
    return "".join(f"<code>{part}</code>" if odd % 2 else part for odd, part in enumerate(parts))


def _prefers_markdown(scope: Scope) -> bool:
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept").lower()
    at, html_at = accepted.find(_MARKDOWN.encode()), accepted.find(b"text/html")
    return at >= 0 and (html_at < 0 or at < html_at)

"""The pages that problem types point to: what happened, and what to do. As HTML, or as Markdown for who asks for it."""

from html import escape
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from surefoot.idempotency.http.problems import TITLES, ProblemName

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
_MARKDOWN = "text/markdown"


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

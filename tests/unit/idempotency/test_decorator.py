"""The decorator: what it lets through, what it refuses when the module is loaded, and what a framework sees of it."""

import inspect
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast, get_type_hints

import pytest
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from surefoot.errors import ConfigurationError
from surefoot.idempotency import Idempotency, Idempotent, Store, idempotent
from surefoot.idempotency.http.middleware import _without_credentials


async def test_the_parameter_that_is_ours_is_not_seen_by_the_framework() -> None:
    @idempotent(effect="outside")
    async def create(body: dict[str, int], *, request: Idempotent, dry: bool = False) -> "Response":
        """Makes something."""
        return Response(str((body, dry)))

    signature = inspect.signature(create)
    assert list(signature.parameters) == ["body", "dry"]
    assert signature.return_annotation is Response
    assert get_type_hints(create) == {"body": dict[str, int], "dry": bool, "return": Response}
    assert (create.__name__, create.__doc__) == ("create", "Makes something.")
    assert inspect.iscoroutinefunction(create)


async def test_an_annotation_in_quotes_is_found_too() -> None:
    @idempotent(effect="outside")
    async def create(body: "dict[str, int]", request: "Idempotent") -> None: ...

    assert list(inspect.signature(create).parameters) == ["body"]


async def test_without_the_middleware_a_sentence_says_so() -> None:
    @idempotent()
    async def create() -> None: ...

    with pytest.raises(ConfigurationError, match="was asked without the Idempotency middleware"):
        await create()


def test_a_function_that_is_not_async_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="it is no async function"):

        @idempotent()  # type: ignore[arg-type]
        def create(request: Idempotent) -> None: ...


@pytest.mark.parametrize("annotation", [StreamingResponse, AsyncIterator[bytes]])
def test_a_stream_is_refused(annotation: Any) -> None:
    async def create(request: Idempotent) -> Any: ...

    create.__annotations__["return"] = annotation
    with pytest.raises(ConfigurationError, match="it answers with a stream"):
        idempotent()(create)


def test_a_generator_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one that yields is a stream"):

        @idempotent()  # type: ignore[arg-type]
        async def create(request: Idempotent) -> AsyncIterator[bytes]:
            yield b""


def test_an_outside_effect_needs_the_parameter() -> None:
    with pytest.raises(ConfigurationError, match='has effect="outside" and no parameter that is annotated Idempotent'):

        @idempotent(effect="outside")
        async def create() -> None: ...


def test_two_parameters_or_one_without_a_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="one parameter"):

        @idempotent()
        async def two(one: Idempotent, other: Idempotent) -> None: ...

    with pytest.raises(ConfigurationError, match="one parameter"):

        @idempotent()
        async def nameless(one: Idempotent, /) -> None: ...


def test_windows_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="windows"):
        idempotent(replay_for=timedelta(days=20), gone_for=timedelta(days=20))


def test_credentials_are_not_kept_with_a_request() -> None:
    assert _without_credentials(["X-Version"]) == {"x-version"}
    with pytest.raises(ConfigurationError, match="authorization cannot be kept with a request"):
        _without_credentials(["X-Version", "Authorization"])
    assert "keep_headers" in inspect.signature(Idempotency).parameters


@pytest.mark.parametrize("has_key", [True, False])
async def test_an_app_is_offered_no_way_of_answering_that_passes_the_layer_by(has_key: bool) -> None:
    """A server that sends files by itself would send what is not stored."""
    offered: list[set[str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        offered.append(set(scope["extensions"]))

    async def unused(*_: Any) -> Any:
        raise AssertionError("nothing is read or sent here")

    extensions: dict[str, Any] = {"http.response.pathsend": {}, "http.response.debug": {}}
    headers = [(b"idempotency-key", b"8e03978e-40d5-43dd-bc93-6894a57f9324")] if has_key else []
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers, "extensions": extensions}
    await Idempotency(app, store=cast(Store, None), tenant=lambda _: "one")(scope, unused, unused)
    assert offered == [{"http.response.debug"} if has_key else set(extensions)]

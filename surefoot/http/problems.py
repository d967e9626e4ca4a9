"""Errors as application/problem+json (RFC 9457), each with a sentence."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong."""

    type: str = Field("about:blank", description="Nothing more is known of it than its title.")
    title: str
    status: int
    detail: str = Field(description="A sentence: what is wrong, and what to do.")


def described(sentences: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """The problems of an operation, as its OpenAPI description has them."""
    return {
        code: {"description": text, "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
        for code, text in sentences.items()
    }


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    made = Problem(type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(made.model_dump(), status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def sentence_of(error: Mapping[str, Any]) -> str:
    """One of the errors that pydantic found in a request."""
    name = ".".join(str(part) for part in error["loc"][1:]) or "The request"
    if error["type"] == "extra_forbidden":
        return f"{name} is not a parameter of this: see /docs for those there are."
    return f"{name} cannot be used: {str(error['msg']).removeprefix('Value error, ')}."

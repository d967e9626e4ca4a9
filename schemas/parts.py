"""What several contracts share: an order's id, its lines, where it goes."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from surefoot.events import Money, Personal

OrderId = Annotated[str, Field(min_length=1, max_length=64)]
ReturnId = Annotated[str, Field(min_length=1, max_length=64)]
Sku = Annotated[str, Field(min_length=1, max_length=64)]
MOST_OF_ONE_ARTICLE = 10_000
"""So many pieces of one article are handled at once: in a line, and in all lines of an order or a hold together."""


class Part(BaseModel):
    """A part of event data: frozen and tolerant, like the data themselves."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Line(Part):
    """So many of one article."""

    sku: Sku
    quantity: int = Field(ge=1, le=MOST_OF_ONE_ARTICLE)
    unit_price: Money


class StockLine(Part):
    """So many of one article, where the price is nobody's business."""

    sku: Sku
    quantity: int = Field(ge=1, le=MOST_OF_ONE_ARTICLE)


class Address(Part):
    name: Annotated[str, Personal] = Field(min_length=1, max_length=200)
    street: Annotated[str, Personal] = Field(min_length=1, max_length=200)
    postal_code: Annotated[str, Personal] = Field(max_length=20)
    city: Annotated[str, Personal] = Field(min_length=1, max_length=100)
    country: str = Field(pattern="^[A-Z]{2}$", description="ISO 3166-1 alpha-2.")

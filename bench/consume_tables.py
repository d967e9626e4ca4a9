"""What the consumers of the bench write: a row per order placed, or a few rows of stock that everybody takes from."""

from sqlalchemy import BigInteger
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

HOT_ROWS = 20
STOCK = 1_000_000_000


class Base(DeclarativeBase):
    pass


class PlacedRow(Base):
    """The effect of an event, with a number that the database gives it."""

    __tablename__ = "placed"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    event_id: Mapped[str]
    order_id: Mapped[str]
    customer_id: Mapped[str]
    minor_units: Mapped[int] = mapped_column(BigInteger)
    note: Mapped[str]


class StockRow(Base):
    __tablename__ = "stock"
    sku: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    quantity: Mapped[int] = mapped_column(BigInteger)

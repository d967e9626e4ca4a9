"""A client for APIs that take an `Idempotency-Key`: one key for each logical call, however often it has to be sent.

async with Client("https://payments.example") as client:
    answer = await client.post("/v1/charges", json={"amount": "19.99", "currency": "EUR"})
"""

from surefoot.client.answer import Answer, GaveUp
from surefoot.client.client import Client, new_key
from surefoot.client.retrying import Patience

__all__ = ["Answer", "Client", "GaveUp", "Patience", "new_key"]

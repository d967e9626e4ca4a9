"""Consumers, as a user declares them. Nothing in here starts anything; `consumers/` runs what is declared here."""

from surefoot.consumer.consumer import Consumer
from surefoot.consumer.failures import DependencyDown, Permanent, Transient
from surefoot.consumer.handlers import OutsideCall, Transaction
from surefoot.errors import HandlerMisuse
from surefoot.retry import Retry

__all__ = [
    "Consumer",
    "DependencyDown",
    "HandlerMisuse",
    "OutsideCall",
    "Permanent",
    "Retry",
    "Transaction",
    "Transient",
]

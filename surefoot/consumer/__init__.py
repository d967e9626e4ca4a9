"""Consumers, as a user declares them. Nothing in here starts anything; `consumers/` runs what is declared here."""

from surefoot.consumer.consumer import Consumer
from surefoot.consumer.failures import DependencyDown, HandlerMisuse, Permanent, Transient
from surefoot.consumer.retry import Retry
from surefoot.consumer.transaction import OutsideCall, Transaction

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

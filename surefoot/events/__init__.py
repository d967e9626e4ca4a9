"""Contracts: events and their types, money, and their form on Kafka (CloudEvents 1.0).

Pure: nothing in here reads or writes anything, and nothing in here knows of a database or a broker.
"""

from surefoot.events.binding import BadRecord, Envelope, decode, encode, to_event
from surefoot.events.catalogue import Catalogue
from surefoot.events.event import Command, Event, encode_data, new_event
from surefoot.events.event_type import EventData, EventType, Topic, event_type_of
from surefoot.events.masking import Personal
from surefoot.events.money import Money

__all__ = [
    "BadRecord",
    "Catalogue",
    "Command",
    "Envelope",
    "Event",
    "EventData",
    "EventType",
    "Money",
    "Personal",
    "Topic",
    "decode",
    "encode",
    "encode_data",
    "event_type_of",
    "new_event",
    "to_event",
]

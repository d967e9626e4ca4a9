"""Notifications: what buyers are told."""

from typing import Literal

from surefoot.events import Catalogue, EventData

notifications = Catalogue(source="/notifications")
notification_events = notifications.topic("notification.events", partitions=8)
notification_commands = notifications.topic("notification.commands", partitions=8)

Message = Literal[
    "order_confirmed",
    "order_cancelled",
    "return_refunded",
    "return_refused",
    "return_aborted",
    "return_rejected",
]


@notifications.event("notification.sent", topic=notification_events, key="customer_id")
class NotificationSent(EventData):
    """A message is on its way to the buyer."""

    customer_id: str
    notification_id: str
    message: Message
    about: str


@notifications.event("notification.send", topic=notification_commands, key="customer_id")
class SendNotification(EventData):
    """Tell the buyer. Answered by notification.sent."""

    customer_id: str
    message: Message
    about: str

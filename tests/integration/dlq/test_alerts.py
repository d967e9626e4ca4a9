"""People are told of new groups and of too many open letters: once, by one of the services; again when it is back."""

import asyncio
import base64

import pytest
from standardwebhooks import Webhook

from surefoot.database.connection import Connection, connect
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep.alerts import MOST_TOLD, DlqAlerts, alerts_of
from tests.support.alert_receiver import alert_receiver
from tests.support.dlq.fixtures import alerts, connection
from tests.support.dlq.housekeeping import Kept, aged, put, set_status

__all__ = ["alerts", "connection"]

SCHEMA = "surefoot"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def telling(alerts: Kept) -> DlqAlerts:
    return DlqAlerts(SCHEMA, DlqSettings(many_open=10), alerts)


async def told_days_ago(connection: Connection, days: float) -> None:
    await connection.execute(f"UPDATE {SCHEMA}.dlq_groups SET told_at = now() - interval '{days} days'")


async def test_a_new_group_is_told_of_once_with_what_to_do(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, aged(1, 0, fingerprint="aaaa"), aged(2, 0, fingerprint="aaaa"))
    await telling.tell(connection)
    await telling.tell(connection)
    (alert,) = alerts.taken("new_group")
    assert alert.sentence == (
        "There is a new group of dead letters, 2 open, of warehouse: There is no article 7. "
        "(surefoot dlq list --group aaaa)"
    )
    assert alert.details == {
        "consumer": "warehouse",
        "event_type": "order.placed",
        "reason": "permanent",
        "error_type": "shop.errors.NoSuchArticle",
        "fingerprint": "aaaa",
        "open": "2",
    }


async def test_each_new_group_has_an_alert_of_its_own(connection: Connection, telling: DlqAlerts, alerts: Kept) -> None:
    await put(connection, *(aged(number, 0, fingerprint=f"group {number}") for number in range(3)))
    await telling.tell(connection)
    assert {alert.cause for alert in alerts.taken("new_group")} == {"group 0", "group 1", "group 2"}


async def test_a_flood_of_new_groups_ends_in_one_sentence(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, *(aged(number, 0, fingerprint=f"group {number}") for number in range(MOST_TOLD + 5)))
    await telling.tell(connection)
    told = alerts.taken("new_group")
    assert len(told) == MOST_TOLD + 1
    assert told[-1].sentence.startswith("There are 5 more new groups")
    await telling.tell(connection)
    assert alerts.taken("new_group") == []


async def test_several_services_tell_of_a_group_once(database_url: str, connection: Connection) -> None:
    await put(connection, *(aged(number, 0, fingerprint=f"group {number}") for number in range(10)))

    async def service() -> list[str]:
        alerts, own = Kept(), await connect(database_url, name="test")
        try:
            await DlqAlerts(SCHEMA, DlqSettings(many_open=5), alerts).tell(own)
        finally:
            await own.close()
        return [alert.cause for alert in alerts.raised]

    told = [cause for causes in await asyncio.gather(*(service() for _ in range(5))) for cause in causes]
    assert sorted(told) == sorted([*(f"group {number}" for number in range(10)), "warehouse"])


async def test_a_group_that_comes_back_after_a_day_is_told_of_again(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, aged(1, 0))
    await telling.tell(connection)
    await set_status(connection, "REPLAYED")
    await told_days_ago(connection, 1.1)
    await telling.tell(connection)
    assert len(alerts.taken("new_group")) == 1, "there is nothing to tell of a group that has nothing open"
    await put(connection, aged(2, 0))
    await telling.tell(connection)
    (alert,) = alerts.taken("new_group")
    assert alert.sentence.startswith("A group of dead letters is back, 1 open, of warehouse: ")


async def test_a_group_that_comes_back_within_a_day_is_not_told_of_again(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, aged(1, 0))
    await telling.tell(connection)
    await set_status(connection, "REPLAYED")
    await told_days_ago(connection, 0.9)
    await telling.tell(connection)
    await put(connection, aged(2, 0))
    await telling.tell(connection)
    assert len(alerts.taken("new_group")) == 1


@pytest.mark.parametrize("status", ["OPEN", "REPLAYING", "DISCARD_REQUESTED"])
async def test_a_group_that_somebody_still_works_on_is_not_told_of_again(
    connection: Connection, telling: DlqAlerts, alerts: Kept, status: str
) -> None:
    await put(connection, aged(1, 0))
    await telling.tell(connection)
    await set_status(connection, status)
    await told_days_ago(connection, 10)
    await telling.tell(connection)
    await set_status(connection, "OPEN")
    await telling.tell(connection)
    assert len(alerts.taken("new_group")) == 1


async def test_many_open_letters_are_told_of_once_until_they_are_few_again(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, *(aged(number, 0) for number in range(10)))
    await telling.tell(connection)
    assert alerts.taken("many_open") == [], "ten are not more than ten"
    await put(connection, aged(10, 0))
    await telling.tell(connection)
    await telling.tell(connection)
    (alert,) = alerts.taken("many_open")
    assert alert.sentence == (
        "warehouse has 11 open dead letters, more than 10: surefoot dlq groups --consumer warehouse."
    )
    await set_status(connection, "REPLAYED", where="log_offset < 3")
    await telling.tell(connection)
    await set_status(connection, "OPEN")
    await telling.tell(connection)
    assert alerts.taken("many_open") == [], "eight are not few yet"
    await set_status(connection, "REPLAYED", where="log_offset < 4")
    await telling.tell(connection)
    await set_status(connection, "OPEN")
    await telling.tell(connection)
    assert len(alerts.taken("many_open")) == 1


async def test_many_are_counted_consumer_by_consumer_over_all_groups(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, *(aged(number, 0, consumer="a", fingerprint=f"a{number}") for number in range(11)))
    await put(connection, *(aged(number, 0, consumer="b", fingerprint="b") for number in range(11, 20)))
    await telling.tell(connection)
    assert [alert.details["consumer"] for alert in alerts.taken("many_open")] == ["a"]


async def test_a_consumer_whose_letters_are_all_gone_is_told_of_again(
    connection: Connection, telling: DlqAlerts, alerts: Kept
) -> None:
    await put(connection, *(aged(number, 0) for number in range(11)))
    await telling.tell(connection)
    await connection.execute(f"DELETE FROM {SCHEMA}.dlq_events")
    await connection.execute(f"DELETE FROM {SCHEMA}.dlq_groups")
    await telling.tell(connection)
    await put(connection, *(aged(number, 0) for number in range(11)))
    await telling.tell(connection)
    assert len(alerts.taken("many_open")) == 2


async def test_what_was_not_committed_is_told_again(connection: Connection, telling: DlqAlerts, alerts: Kept) -> None:
    await put(connection, aged(1, 0))
    with pytest.raises(RuntimeError):
        async with connection.transaction():
            await telling.tell_of_new_groups(connection)
            raise RuntimeError
    await telling.tell(connection)
    assert len(alerts.taken("new_group")) == 2


async def test_an_alert_reaches_a_webhook_signed_and_in_the_shape_that_is_set(connection: Connection) -> None:
    await put(connection, aged(1, 0, error="Look, <!channel>!"))
    async with alert_receiver() as receiver:
        settings = DlqSettings(alert_webhook=receiver.url, alert_secret=SECRET, alert_shape="slack")
        alerts = alerts_of(settings)
        await DlqAlerts(SCHEMA, settings, alerts).tell(connection)
        post = await receiver.next_post()
        await alerts.close()
    text = Webhook(SECRET).verify(post.body, post.headers)["text"]
    assert text.startswith("*new_group*: There is a new group of dead letters, 1 open, of warehouse: ")
    assert "Look, &lt;!channel&gt;!" in text


async def test_without_a_webhook_alerts_are_logged_alone(connection: Connection) -> None:
    alerts = alerts_of(DlqSettings())
    await put(connection, aged(1, 0))
    await DlqAlerts(SCHEMA, DlqSettings(), alerts).tell(connection)
    await alerts.close()
    assert await connection.fetchval(f"SELECT count(told_at) FROM {SCHEMA}.dlq_groups") == 1

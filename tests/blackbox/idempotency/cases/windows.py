"""How long an answer is kept. The target's routes for this have windows of a second and less."""

from tests.blackbox.idempotency.asking import ask
from tests.blackbox.idempotency.case import case, expect, expect_counts, expect_first, expect_status
from tests.blackbox.idempotency.server import Server


@case
async def when_an_answer_is_kept_no_longer_the_key_is_gone(server: Server) -> None:
    asked = ask("/short-replay")
    expect_first(await server.send(asked))
    now = await server.until(asked, lambda reply: reply.status != 201)
    expect_status(now, 410)
    expect(bool(now.json.get("first_at")), f"the refusal does not say when the key was first used: {now}")
    await expect_counts(server, asked, runs=1, effects=1)


@case
async def after_that_the_key_is_new(server: Server) -> None:
    asked = ask("/short-gone")
    first = expect_first(await server.send(asked))
    now = await server.until(asked, lambda reply: reply.status == 201 and reply.replayed is None)
    expect_first(now)
    expect(now.json["id"] != first.json["id"], "the key is new, and its id is not")
    await expect_counts(server, asked, runs=2, effects=2)

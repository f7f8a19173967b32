"""How much work waits, as the figures say it."""

from prometheus_client.parser import text_string_to_metric_families

from streams import metrics
from streams.depths import Depths


def depths():
    found = {}
    for family in text_string_to_metric_families(metrics.render()):
        for sample in family.samples:
            if family.name.startswith(("respool_work_waiting", "respool_due")):
                found[sample.labels.get("kind", sample.name)] = sample.value
    return found


async def test_hints_that_nobody_took_and_responses_that_are_due_are_counted(store):
    looking = Depths(store)
    store.work.offer("rounds", "resp_a")
    store.work.offer("rounds", "resp_b")
    store.work.offer("tools", "resp_a")
    now = await store.logs.now()
    await store.due.enter("resp_a", now + 60_000)
    await store.due.enter("resp_b", now - 2_000)
    await store.due.enter("resp_c", now - 100)  # a sweeper may be on its way
    await store.writer.drained()
    await looking.look()
    assert depths() == {
        "rounds": 2,
        "translate": 0,
        "tools": 1,
        "respool_due_responses": 3,
        "respool_due_overdue": 1,
    }


async def test_where_the_store_does_not_answer_they_are_left_out(store):
    looking = Depths(store)
    await looking.look()
    assert len(depths()) == 5
    await store.connections.command("SET", store.keys.due, "", "PX", 60_000)  # of another type
    await looking.look()
    assert depths() == {}

"""The fixtures themselves: a store that answers, and a watch over keys that works."""

from pathlib import Path

from streams.client import connect
from tests.matrix import ORDER
from tests.wait import wait_until


async def test_each_store_answers_and_knows_ttls(store_url, namespace):
    connections = await connect(store_url)
    try:
        await connections.command("SET", f"{namespace}:x", "1", "PX", 60_000)
        assert 0 < await connections.command("PTTL", f"{namespace}:x") <= 60_000
    finally:
        await connections.close()


def test_the_page_on_stores_has_a_row_for_each_that_is_tried():
    page = (Path(__file__).parents[1] / "docs" / "stores.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("|")]
    assert [row for row in rows if row in ORDER] == list(ORDER)


async def test_waiting_ends_with_the_condition():
    seen = []

    async def third_time():
        seen.append(1)
        return len(seen) == 3

    assert await wait_until(third_time)
    assert len(seen) == 3

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import bounds
from tests.api.gateway import Gateway, running
from tests.ingest.server import text_stream
from tests.stall import longest_wait
from translator.protocol import request as requests

pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

TINY = {"role": "user", "content": ""}


@pytest.fixture
async def wide(store, upstream):
    upstream.play(*text_stream("a"))
    limits = {"max_rounds": 10, "max_attempts": 2, "max_response_bytes": 64 << 20}
    async with running(store, upstream, max_body_bytes=30 << 20, limits=limits) as gateway:
        yield gateway


async def test_fifty_thousand_tiny_items_do_not_stop_the_event_loop(wide: Gateway):
    raw = b'{"model": "m", "input": [' + b'{"role":"user","content":""},' * 50_000
    raw = raw[:-1] + b"]}"
    began = time.monotonic()
    reply = await wide.ask("POST", "/v1/responses", raw)
    assert (reply.status, reply.error["param"]) == (400, "input")
    assert time.monotonic() - began < 5


BEGUN = b'{"model":"m","input":"x","metadata":'
FILL = 24 << 20
CROWDED = {
    "numbers": (b"[", b"0,", b"0]}"),
    "objects": (b"[", b"{},", b"{}]}"),
    "members": (b"{", b'"a":0,', b'"a":0}}'),
    "arrays": (b"", b"[", b""),
}
ODD = {"quotes": b'"', "backslashes": b"\\", "one text": b"x"}
STALL_S = 0.25
"""Of this process's own work; a body of 24 MiB copied a few times is a part of it. It was 2 to 11 s."""


async def stalled_by(gateway: Gateway, raw: bytes) -> tuple[Any, float]:
    """The answer to a body, and the longest time in which nobody else had a turn."""
    watching = asyncio.create_task(longest_wait())
    await asyncio.sleep(0.01)
    reply = await gateway.ask("POST", "/v1/responses", raw)
    watching.cancel()
    return reply, await watching


no_store = pytest.mark.parametrize("store_url", ["fakeredis"], indirect=True)
"""For what is refused before any store is asked."""


@no_store
@pytest.mark.parametrize("kind", CROWDED)
async def test_millions_of_values_are_refused_unread_and_stop_nobody(wide: Gateway, kind: str):
    head, piece, tail = CROWDED[kind]
    raw = BEGUN + head + piece * (FILL // len(piece)) + tail
    reply, stall_s = await stalled_by(wide, raw)
    assert reply.status == 400
    assert reply.error["message"] == f"The request body has more than {bounds.MAX_VALUES} values."
    assert stall_s < STALL_S


@no_store
@pytest.mark.parametrize("kind", ODD)
async def test_a_large_body_that_is_no_json_stops_nobody(wide: Gateway, kind: str):
    reply, stall_s = await stalled_by(wide, b'{"a": "' + ODD[kind] * FILL)
    assert (reply.status, reply.error["param"]) == (400, None)
    assert stall_s < STALL_S


@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.sampled_from('a,[]{}"\\\n')),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a,["\\')), inner),
        max_leaves=30,
    ),
    st.integers(1, 9),
)
def test_values_are_counted_outside_of_strings_however_it_is_cut(value, size):
    raw = json.dumps(value, indent=1).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "SLICE_BYTES", size)
        assert bounds.values(raw, 10_000) == separators(value)
        assert bounds.values(raw, 0) == min(separators(value), bounds.values(raw, 0))


def separators(value: Any) -> int:
    """Brackets that open, and commas between members."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + sum(separators(one) for one in inner)


async def test_healthz_answers_while_a_large_body_is_worked_on(wide: Gateway):
    item = {"role": "user", "content": [{"type": "input_text", "text": "x" * 200}] * 3}
    asking = asyncio.ensure_future(wide.create(input=[item] * requests.MAX_INPUT_ITEMS))
    began, slowest = time.monotonic(), 0.0
    while not asking.done():
        asked = time.monotonic()
        assert (await wide.ask("GET", "/healthz")).status == 200
        slowest = max(slowest, time.monotonic() - asked)
        await asyncio.sleep(0.01)
    assert (await asking).status == 200
    assert slowest < (time.monotonic() - began) / 2, "others had no turn while it was worked on"


async def test_parts_are_counted_like_items(wide: Gateway):
    part = {"type": "input_text", "text": ""}
    reply = await wide.create(input=[TINY | {"content": [part] * 40_001}])
    assert (reply.status, reply.error["param"]) == (400, "input")


async def test_other_long_lists_are_named(wide: Gateway):
    reply = await wide.create(tools=[{"type": "function", "name": "f"}] * 10_001)
    assert (reply.status, reply.error["param"]) == (400, "tools")
    reply = await wide.create(**{"secret-field": [1] * 10_001})
    assert (reply.status, reply.error["param"]) == (400, None)


async def test_a_conversation_of_too_many_items_is_a_400(wide: Gateway, monkeypatch):
    first = await wide.made(input=[TINY] * 3)
    monkeypatch.setattr(bounds, "MAX_INPUT_ITEMS", 5)
    assert (await wide.create(previous_response_id=first["id"], input=[TINY])).status == 200
    reply = await wide.create(previous_response_id=first["id"], input=[TINY] * 2)
    assert (reply.status, reply.error["param"]) == (400, "previous_response_id")


async def test_a_body_of_the_default_bound_is_taken(wide: Gateway):
    head = json.dumps({"model": "m", "store": False, "input": "§"}).encode()
    before, after = head.split(json.dumps("§").encode())
    text = b'"' + b"a" * ((24 << 20) - len(before) - len(after) - 2) + b'"'
    reply = await wide.ask("POST", "/v1/responses", before + text + after)
    assert reply.status == 200


async def test_what_the_log_has_no_room_for_is_a_413_and_no_failed_response(store, upstream):
    upstream.play(*text_stream("a"))
    limits = {"max_rounds": 10, "max_attempts": 2, "max_response_bytes": 200_000}
    async with running(store, upstream, limits=limits) as gateway:
        first = await gateway.made(input="x" * 93_000)
        for more in (600, 90_000):  # found after and before it is written
            reply = await gateway.create(input="x" * more, previous_response_id=first["id"])
            assert (reply.status, reply.error["code"]) == (413, "body_too_large")
        reply = await gateway.create(input="x" * 100_000)
        assert (reply.status, reply.error["code"]) == (413, "body_too_large")


async def test_a_long_history_of_few_items_is_worked_on_in_a_thread(wide: Gateway):
    first = await wide.made(input="x" * 300_000)
    ran = []
    aside = bounds.run_sync

    async def seen(*given, **options):
        ran.append(given)
        return await aside(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "run_sync", seen)
        await wide.made(previous_response_id=first["id"])
    assert len(ran) == 1

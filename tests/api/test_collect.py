import pytest

from api.collect import terminal
from streams.faults import LogLost
from tests.api.gateway import Gateway, data_of
from tests.ingest.server import text_stream


async def test_only_the_terminal_frame_is_the_end(gateway: Gateway):
    gateway.upstream.play(*text_stream("a"))
    rid = (await gateway.made())["id"]
    frame = await terminal(gateway.store.hub.open(rid), rid)
    assert data_of(frame.data)["type"] == "response.completed"
    with pytest.raises(LogLost):
        await terminal(gateway.store.hub.open(rid, frame.seq), rid)

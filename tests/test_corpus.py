"""Recorded streams of real servers, run through a gateway and replayed: identical, and what is altered is named.

The recordings are not part of this repository: RESPOOL_CORPUS names the folder that holds `chat/*.sse` and
`responses/*.sse`.
"""

import json
import os
from pathlib import Path

import pytest

from respool.inspection import replay
from respool.inspection.redacted import changed, redacted
from respool.inspection.screen import Screen
from respool.settings import Settings
from streams import recording, transcript
from tests.api.gateway import Listed, running
from tests.ingest.server import serving
from translator.protocol.sse import DeltaTemplate
from translator.protocol.upstream import Upstream
from translator.refold import Difference, Identical, compare, refold

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def store_url(valkey_url):
    """A real server."""
    return valkey_url


@pytest.fixture
def streams() -> list[tuple[str, str, bytes]]:
    """Name, dialect and body of each."""
    folder = os.environ.get("RESPOOL_CORPUS")
    if not folder:
        pytest.skip("RESPOOL_CORPUS does not name the folder of recorded streams")
    found = [
        (path.stem, api, path.read_bytes())
        for api in ("chat", "responses")
        for path in sorted((Path(folder) / api).glob("*.sse"))
    ]
    assert len(found) > 100
    return found


async def test_every_recorded_stream_replays_identically(
    store, namespace, store_url, streams, capsys
):
    """Also out of a file, and without its content; with an altered translator the first frame that differs is named."""
    settings = Settings(redis_url=store_url, namespace=namespace)
    screen = Screen(as_json=True)
    altered = 0
    async with serving() as upstream:
        listed = Listed(
            *(Upstream(api, upstream.url, api, models=(api,)) for api in ("chat", "responses"))
        )
        async with running(store, upstream, upstreams=listed) as gateway:
            for name, api, body in streams:
                upstream.plays.clear()
                upstream.play(body)
                made = (await gateway.create(model=api, background=True)).json
                found = await ended(gateway, made["id"])
                assert await replay.replay(screen, settings, found.rid) == 0, name
                told = json.loads(capsys.readouterr().out)
                assert (told["identical"], told["frames"]) == (True, len(found.frames)), name
                again = transcript.recording_of(
                    transcript.read(b"".join(transcript.lines_of(found)))
                )
                assert (again.entries, again.frames) == (found.entries, found.frames), name
                altered += named(found)
                bare = redacted(found)
                frames = [frame.data for frame in bare.frames]
                assert isinstance(compare(refold(bare.rid, bare.entries), frames), Identical), name
                assert changed(found, bare) is None, name
    assert altered > len(streams) // 2, "most streams have deltas"


async def ended(gateway, rid) -> recording.Recording:
    """The response, once it has ended."""
    async with gateway.store.hub.open(rid) as reader:
        async for _ in reader:
            pass
    return await recording.read(gateway.store.logs, rid)


def named(found: recording.Recording) -> bool:
    """Whether a translator that spoils deltas is told, at the first of them; False where there is none."""
    stored = [frame.data for frame in found.frames]
    whole = DeltaTemplate.frame
    spoilt: list[int] = []

    def spoil(self, sequence_number, delta):
        spoilt.append(sequence_number)
        return whole(self, sequence_number, delta + "!")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTemplate, "frame", spoil)
        result = compare(refold(found.rid, found.entries), stored)
    if not spoilt:
        assert isinstance(result, Identical)
        return False
    assert isinstance(result, Difference)
    assert (result.seq, result.stored) == (spoilt[0], stored[spoilt[0]])
    assert result.refolded != result.stored
    return True

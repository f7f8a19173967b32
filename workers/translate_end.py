"""The end of a response whose fold cannot go on: `response.failed`, built from what is committed.

When another version of the code, or a log that lost entries, does not continue the committed
frames, they are never spliced with others: the response fails (design section 4.3). In: the
committed frames and the request entry. Out: the frame, or frames, that end the stream. Pure, but
for `committed_frames`; called by `workers.translate`.
"""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from streams.faults import LogLost
from streams.logs import Logs
from streams.scripts.refused import Refused
from streams.writer import MAX_CALL_BYTES
from translator.closing import Closing
from translator.protocol.entries import Entry, Kind, RequestEntry
from translator.protocol.response import template
from translator.protocol.sse import fields, frame

log = logging.getLogger(__name__)

ROOM_BYTES: Final = MAX_CALL_BYTES - 2**20
"""What an end may weigh; it is committed in one step, with a few hundred bytes besides. A text that is closed stands in
it four times, and an input log may hold as much text as this."""

MESSAGE: Final = "The response could not be continued after a fault of the gateway."


@dataclass(frozen=True, slots=True)
class Ending:
    """The last frames of a response, and the digest over all its frames."""

    first_seq: int
    frames: list[bytes]
    digest: str


def ending(rid: str, committed: list[bytes], seq: int, first: list[Entry], created: int) -> Ending:
    """The frames that follow `seq`; of a large response it takes a second.

    `first` is what the input log begins with and `created` the time in its state: they stand in
    for a response that has no frame yet. What has no room is left out, the events that close
    items first: an end that nobody can commit would be none.
    """
    response: dict[str, Any] | None = None
    closing, digest = Closing(), hashlib.blake2b(digest_size=16)
    for one in committed:
        payload = _payload(one)
        response = payload.get("response", response)
        closing.see(payload)
        digest.update(one)
    opening: list[bytes] = []
    if response is None:
        response = _begun(rid, first, created)
        if seq < 0:  # a stream begins with created, whatever comes then
            opening.append(_lifecycle("response.created", 0, response))
    missing, output = closing.close()
    frames: list[bytes] = []
    for events, items in ((missing, output), ([], output), ([], [])):
        frames = [*opening, *_last_frames(seq + 1 + len(opening), events, response, items)]
        if sum(map(len, frames)) <= ROOM_BYTES:
            break
    for one in frames:
        digest.update(one)
    return Ending(seq + 1, frames, digest.hexdigest())


def _last_frames(
    seq: int, events: list[dict[str, Any]], response: dict[str, Any], output: list[dict[str, Any]]
) -> Iterator[bytes]:
    for number, event in enumerate(events, seq):
        kind = {"type": event["type"], "sequence_number": number}
        yield frame(event["type"], kind | event)
    failed = {
        **response,
        "status": "failed",
        "output": output,
        "error": {"code": "server_error", "message": MESSAGE},
        "completed_at": None,
        "incomplete_details": None,
    }
    yield _lifecycle("response.failed", seq + len(events), failed)


async def committed_frames(logs: Logs, rid: str) -> list[bytes]:
    """What the output log still holds; a hole ends it. Raises StoreError where the store is away."""
    frames: list[bytes] = []
    try:
        while page := (await logs.read_output(rid, len(frames) - 1)).frames:
            frames += [one.data for one in page]
    except (LogLost, Refused):
        pass  # what was read is all there is; the caller's commit finds out if the response is gone
    return frames


def _lifecycle(kind: str, seq: int, response: dict[str, Any]) -> bytes:
    return frame(kind, {"type": kind, "sequence_number": seq, "response": response})


def _payload(one: bytes) -> dict[str, Any]:
    payload: dict[str, Any] = orjson.loads(fields(one.strip(b"\n"))[1])
    return payload


def _begun(rid: str, first: list[Entry], created: int) -> dict[str, Any]:
    """The response as its request alone makes it; a request that cannot be read says nothing."""
    request: RequestEntry = {
        "version": 1,
        "id": rid,
        "tenant": "",
        "request": {"model": ""},
        "input": [],
        "history": [],
        "upstream": {},
        "limits": {},
    }
    created_at = created // 1000
    if first and first[0].kind == Kind.REQUEST:
        try:
            begun = template(orjson.loads(first[0].data), created_at)
        except (LookupError, TypeError, ValueError, AttributeError):
            about = {"response": rid}
            log.warning("%s has no request that this version can read", rid, extra=about)
        else:
            return {**begun, "id": rid, "status": "in_progress"}
    return {**template(request, created_at), "status": "in_progress"}

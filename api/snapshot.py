"""The Response object of a stored response at this moment.

In: a response's id. Out: of a finished one what its terminal frame says, of a running one what `response.created` said,
with the status of now. Nothing is rebuilt: GET, the terminal event and a blocking answer are the same by construction
(invariant 9 of the design). Called by `api.retrieve`, `api.cancel` and `api.history`.
"""

from typing import Any

from streams.faults import LogLost
from streams.logs import Logs
from streams.scripts.outputs import Frame
from translator.protocol.json import loads
from translator.protocol.response import template
from translator.protocol.sse import fields


def response_of(frame: bytes) -> dict[str, Any]:
    """The Response inside a lifecycle frame."""
    response: dict[str, Any] = loads(fields(frame)[1])["response"]
    return response


async def terminal_frame(logs: Logs, rid: str) -> Frame:
    """The last frame of a finished response. Refused (MISSING) if that went meanwhile, LogLost where the frame alone did."""
    frame = await logs.last_frame(rid)
    if frame is None or not frame.terminal:
        raise LogLost(rid, -1)
    return frame


async def current(logs: Logs, rid: str, *, done: bool) -> dict[str, Any]:
    """The Response as it is now. Refused (MISSING) if it went meanwhile, LogLost at a hole."""
    if not done:
        page = await logs.read_output(rid, -1, 1)
        if not page.done:
            if page.frames:
                return response_of(page.frames[0].data) | {"status": page.status}
            # Not even `created` is committed: the same object is made from the request that it will be made from.
            first = await logs.read_input(rid, 0, 1)
            if not first:
                await logs.read_output(rid, -1, 1)  # refused if all of it went
                raise LogLost(rid, -1)
            return template(loads(first[0].data), first[0].t // 1000) | {"status": page.status}
    return response_of((await terminal_frame(logs, rid)).data)

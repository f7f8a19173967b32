"""What a scripted Chat upstream says and was asked, for tests of a whole gateway in front of one."""

import json
from typing import Any

from tests.api.gateway import DONE, Gateway, Listed, Reply, data_of
from tests.ingest.server import Server
from tests.translator.strict_chat import check_body
from translator.protocol.upstream import ReasoningHistory, Upstream

JSON_HEAD = {"content-type": "application/json"}


def chat_upstream(server: Server, *, reasoning_history: ReasoningHistory = "none") -> Listed:
    """The scripted upstream as one that speaks Chat, with what the settings make its defaults."""
    upstream = Upstream(
        "main",
        server.url,
        "chat",
        api_key="up-key",
        custom_formats="validate",
        reasoning_history=reasoning_history,
    )
    return Listed(upstream)


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    """One frame of a chat stream."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return framed(body)


def framed(body: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(body).encode()


def usage(prompt: int, completion: int) -> bytes:
    """The last frame of a server that was asked for the usage."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return framed({"id": "chatcmpl-1", "choices": [], "usage": counts})


def fragment(
    index: int = 0, *, call_id: str | None = None, name: str | None = None, arguments: str = ""
) -> dict[str, Any]:
    """A piece of a tool call."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": call_id} if call_id else {})


def said(*deltas: str) -> list[bytes]:
    """A plain answer."""
    texts = [chunk(content=delta) for delta in deltas]
    return [chunk(role="assistant", content=""), *texts, chunk("stop"), usage(3, 2), DONE]


def called(name: str, *pieces: str, call_id: str = "call_1", thought: str = "") -> list[bytes]:
    """An answer that is one call, in pieces."""
    reasoning = [chunk(reasoning_content=thought)] if thought else []
    return [
        chunk(role="assistant", content=None),
        *reasoning,
        chunk(tool_calls=[fragment(call_id=call_id, name=name)]),
        *(chunk(tool_calls=[fragment(arguments=piece)]) for piece in pieces),
        chunk("tool_calls"),
        usage(3, 2),
        DONE,
    ]


def completion(message: dict[str, Any], finish: str) -> bytes:
    """A whole `chat.completion`, as a server says it that does not stream."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    return json.dumps(body).encode()


def asked(gateway: Gateway, number: int = -1) -> dict[str, Any]:
    """A body that went up, once the strictest server would take it."""
    seen = gateway.upstream.requests[number]
    assert seen.path == "/v1/chat/completions"
    body: dict[str, Any] = json.loads(seen.body)
    check_body(body)
    return body


def events_of(reply: Reply) -> list[dict[str, Any]]:
    """The events of a whole stream."""
    assert reply.status == 200, reply.body
    *frames, done = reply.frames
    assert done == DONE
    return [data_of(frame) for frame in frames]


async def turn(gateway: Gateway, *, stream: bool, **fields: Any) -> dict[str, Any]:
    """The Response of one turn, whichever way it was asked for."""
    reply = await gateway.create(stream=stream, **fields)
    if stream:
        response: dict[str, Any] = events_of(reply)[-1]["response"]
        return response
    assert reply.status == 200, reply.body
    whole: dict[str, Any] = reply.json
    return whole

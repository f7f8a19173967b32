"""A scripted upstream with paced streams: prose, a custom tool's input, and calls of the gateway's own tools.

What it answers depends on the request alone, so that a round that is asked for again is answered again. It knows which
ingest process carries which response: each has a base URL of its own.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.ingest.server import Play, Seen, Server, Step
from tests.respool.errands import answer, call, message, named, prompt_of, results_of

PACE_S = 0.04
WORDS = 24
"""With the pace, a stream of a second: longer than a lease."""
PATCH = [f"*** line {n}\n" for n in range(WORDS)]
CALLS = ("web_search", "read", "write")
TOOLS: dict[str, list[dict[str, Any]]] = {
    "prose": [],
    "custom": [{"type": "custom", "name": "patch", "description": "Applies a patch."}],
}
"""Of the kinds of responses; the third, `tools`, has addresses in its declarations."""


class Model(Server):
    """Answers by the prompt, `<kind>-<number>`."""

    def __init__(self) -> None:
        super().__init__()
        self.carriers: dict[str, str] = {}
        """By prompt, which ingest process asked last."""

    def base_of(self, carrier: str) -> str:
        """The base URL of an ingest process."""
        return f"{self.url}/{carrier}"

    def next_play(self) -> Play:
        return Play([Paced(self)])

    def note(self, seen: Seen) -> dict[str, Any]:
        """The request's body, and a note of who brought it."""
        body: dict[str, Any] = json.loads(seen.body)
        self.requests.clear()  # kept by the server for tests that look at them
        self.carriers[prompt_of(body)] = seen.path.split("/")[2]
        return body


class Paced:
    """Blocks of an answer, one a beat."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __call__(self, seen: Seen) -> Iterator[Step]:
        blocks = said(self._model.note(seen))
        loop = asyncio.get_running_loop()
        for block in blocks:
            beat = asyncio.Event()
            loop.call_later(PACE_S, beat.set)
            yield beat
            yield block


def said(body: dict[str, Any]) -> Iterable[bytes]:
    """The blocks that answer a request."""
    tag = prompt_of(body)
    words = [f"{tag} word {n} " for n in range(WORDS)]
    match tag.partition("-")[0]:
        case "custom":
            name = body["tools"][0]["name"]
            return answer([message(0, "I will ", "patch."), written(1, name)])
        case "tools" if not results_of(body):
            calls = [call(n, *named(body, tool, tag)) for n, tool in enumerate(CALLS, 1)]
            return answer([message(0, *words[:8]), *calls])
        case _:
            return answer([message(0, *words)])


def written(index: int, name: str) -> tuple[dict[str, Any], list[bytes]]:
    """A call whose arguments come in pieces."""
    whole = json.dumps({"input": "".join(PATCH)})
    item, (added, delta, done) = call(index, name, whole)
    size = -(-len(whole) // WORDS)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    escaped, quoted = json.dumps(whole).encode(), [json.dumps(piece).encode() for piece in pieces]
    return item, [added, *(delta.replace(escaped, piece) for piece in quoted), done]

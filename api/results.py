"""What the calls that the gateway ran have given: the public items of a finished response in, the same with results out.

A public item does not tell all that the model was told (a search shows its query only). The next turn's model must know
it, so each item gets its result from the input log, as `result` (see `translator.replay`). Where each one stands the state
tells, so that no log is read through. Called by `api.history` and `api.references`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from streams.logs import Logs, State
from translator.ids import item_id
from translator.items import CALLS
from translator.protocol.entries import Kind
from translator.tool_results import result_of

Item = dict[str, Any]

NOWHERE: Final = (-1, -1)
RUN_TYPES: Final = frozenset({"mcp_call", "web_search_call"})


def has_run(output: Sequence[Item]) -> bool:
    """Whether the gateway has run a call of these items."""
    return any(item["type"] in RUN_TYPES for item in output)


async def with_results(logs: Logs, rid: str, state: State, output: Sequence[Item]) -> list[Item]:
    """The output items of a response. What its client runs was called in its last round."""
    ran = [item for item in output if item["type"] in RUN_TYPES]
    if not ran or not state.results:
        return list(output)
    places = {item_id(rid, kind, *place): place for place in state.results for kind in RUN_TYPES}
    wanted = [places[item["id"]] for item in ran if item["id"] in places]
    pages = await asyncio.gather(
        *(logs.read_input(rid, state.results[place] - 1, 1) for place in wanted)
    )
    found: dict[tuple[int, int], Item] = {}
    for place, page in zip(wanted, pages, strict=True):
        if page and page[0].kind == Kind.TOOL_RESULT:
            result = result_of(page[0].data)[1]
            told = {key: result[key] for key in ("content", "images")}
            found[place] = {**told, "round": f"{rid}/{place[0]}"}

    def known_of(item: Item) -> Item:
        if item["type"] in CALLS:
            return item | {"result": {"round": f"{rid}/{state.round}"}}
        known = found.get(places.get(item["id"], NOWHERE))
        return item if known is None else item | {"result": known}

    return list(map(known_of, output))

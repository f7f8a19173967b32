"""Which output of a conversation answers which call, and an id for each call that no other has.

In: the items of a conversation, in order, as an upstream is to hear them. Out: places, and call ids. Upstreams that number
their calls anew in each round or turn make ids come again (upstream-quirks.md section 4): what goes up has each once.
Called by `translator.history` and `translator.chat_messages`.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from translator.items import CALLS, OUTPUTS

Item = dict[str, Any]


def answered(items: Sequence[Item]) -> dict[int, int]:
    """Which output answers which call, both by their places.

    A call id may come again. A call that was cut off was never run, so that the others of its id come before it. Calls
    without an output were cut off, too, or told twice; a second output says nothing new: all of these are left out.
    """
    waiting: dict[str, tuple[deque[int], deque[int]]] = {}
    left = Counter(item["call_id"] for item in items if item["type"] in OUTPUTS)
    found = {}
    for place, item in enumerate(items):
        if item["type"] in CALLS:
            whole, cut = waiting.setdefault(item["call_id"], (deque(), deque()))
            (cut if item.get("status") == "incomplete" else whole).append(place)
        elif item["type"] in OUTPUTS:
            whole, cut = waiting.get(item["call_id"], (deque(), deque()))
            while len(whole) > left[item["call_id"]] and told_again(
                items[whole[1]], items[whole[0]]
            ):
                whole.popleft()  # the later one is nearer to the output
            left[item["call_id"]] -= 1
            if queue := whole or cut:
                found[queue.popleft()] = place
    return found


def told_again(call: Item, waiting: Item) -> bool:
    """Whether a call is one that waits for its output, told once more.

    Clients that chain by `previous_response_id` bring a call together with its output, although the chain has it
    (LlamaIndex, LiveKit).
    """
    same = (call["type"], call["call_id"], call["name"]) == (
        waiting["type"],
        waiting["call_id"],
        waiting["name"],
    )
    said = "input" if call["type"] == "custom_tool_call" else "arguments"
    return same and call.get("status") != "incomplete" and call[said] == waiting[said]


def unique_ids(items: Sequence[Item], places: Iterable[int]) -> dict[int, str]:
    """An id for each call that no other has: its own the first time, later with a number."""
    given = {place: items[place]["call_id"] for place in places}
    taken = set(given.values())
    times: Counter[str] = Counter()
    ids = {}
    for place, name in given.items():
        times[name] += 1
        ids[place] = name
        if times[name] == 1:
            continue
        while (free := f"{name}_{times[name]}") in taken:
            times[name] += 1
        taken.add(free)
        ids[place] = free
    return ids

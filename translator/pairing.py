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
    """Which output answers which call, both by their places; calls and outputs that are not in it are left out."""
    return matched(items)[0]


def matched(items: Sequence[Item]) -> tuple[dict[int, int], list[int]]:
    """Which output answers which call, by their places, and the whole calls that have none.

    A call id may come again. A call that was cut off was never run, so that the others of its id come before it, and it
    needs no output. One that is told twice needs one; a second output says nothing new.
    """
    ahead = outputs_ahead(items)
    waiting: dict[str, tuple[deque[int], deque[int]]] = {}
    found = {}
    for place, item in enumerate(items):
        if item["type"] in CALLS:
            whole, cut = waiting.setdefault(item["call_id"], (deque(), deque()))
            (cut if item.get("status") == "incomplete" else whole).append(place)
        elif item["type"] in OUTPUTS:
            whole, cut = waiting.get(item["call_id"], (deque(), deque()))
            while len(whole) > ahead[place] and told_again(items[whole[1]], items[whole[0]]):
                whole.popleft()  # the later one is nearer to the output
            if queue := whole or cut:
                found[queue.popleft()] = place
    return found, sorted(place for whole, _ in waiting.values() for place in whole)


def outputs_ahead(items: Sequence[Item]) -> dict[int, int]:
    """For the place of each output: how many of its call id there are from it up to the next call of that id."""
    ahead, count = {}, Counter[str]()
    for place in reversed(range(len(items))):
        item = items[place]
        if item["type"] in CALLS:
            count[item["call_id"]] = 0
        elif item["type"] in OUTPUTS:
            count[item["call_id"]] += 1
            ahead[place] = count[item["call_id"]]
    return ahead


def told_again(call: Item, waiting: Item) -> bool:
    """Whether a whole call is one of its id that waits for its output, told once more.

    Clients that chain by `previous_response_id` bring a call together with its output, although the chain has it
    (LlamaIndex, LiveKit).
    """
    said = "input" if call["type"] == "custom_tool_call" else "arguments"
    return all(call[key] == waiting.get(key) for key in ("type", "name", said))


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

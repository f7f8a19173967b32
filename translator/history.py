"""Items as an upstream takes them: public items in, the copy for one inference round out.

Called by `translator.outbound`. Only the copy is converted; what is stored and listed stays as it
is. The forms are those that vLLM's input models accept (upstream-quirks.md sections 3 and 5).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from translator.chat_parts import attachments, plain
from translator.declarations import Key
from translator.items import CALLS, OUTPUTS
from translator.pairing import answered, matched, unique_ids
from translator.protocol.errors import RequestError
from translator.protocol.json import dumps, loads
from translator.reasoning_seal import unseal
from translator.replay import replayed
from translator.toolmap import ToolMap

Item = dict[str, Any]

FORWARDED: Final = frozenset(
    {
        "apply_patch_call",
        "apply_patch_call_output",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
    }
)
"""Calls that a client runs, and their outputs: an upstream that made them knows them.

What the gateway ran is among the calls by now (`translator.replay`). All other items are left out: what
a provider ran has its say in the messages after it, declarations join the tools, and what is opaque to us
is so to the upstream.
"""


def check_items(items: Sequence[Item], history: Sequence[Item]) -> None:
    """Refuse outputs without a call, calls without an output, references to nothing.

    Items count in order, so that a call id may come again in a later turn. A call that was cut off
    was never run: it needs no output. One that is told again needs one output.
    """
    known = {item.get("id") for item in history}
    both = [*history, *items]
    called: set[str] = set()
    for index, item in enumerate(both, -len(history)):
        kind = item["type"]
        if kind in CALLS:
            called.add(item["call_id"])
        elif kind in OUTPUTS and item["call_id"] not in called:
            raise RequestError(
                f"No tool call found for the output of {item['call_id']!r}.", param="input"
            )
        elif kind == "item_reference" and item["id"] not in known:
            raise RequestError(
                "The referenced item was not found: it is neither in the chain of "
                "'previous_response_id' nor an item of a stored response.",
                param=f"input[{index}].id",
            )
    _, waiting = matched(both)
    if waiting:
        call_id = both[waiting[0]]["call_id"]
        raise RequestError(f"No tool output found for the call {call_id!r}.", param="input")


def upstream_items(items: Iterable[Item], tools: ToolMap) -> list[Item]:
    """The items of the upstream's copy, in order; each call id stands for one call there."""
    items = replayed(items, tools)
    answers = answered(items)
    ids = unique_ids(items, sorted(answers))
    ids |= {output: ids[place] for place, output in answers.items()}
    copies = []
    for place in in_call_order(len(items), {output: call for call, output in answers.items()}):
        item = items[place]
        known = {"call_id": ids[place]} if place in ids else {}
        if item["type"] in CALLS:
            # One that was cut off and never run, or told twice, is left out: the model would wait for its output.
            if known:
                copies.append(call(item, tools) | known)
        elif item["type"] in OUTPUTS:
            if known:  # a second output of one call says nothing new
                copies.append(output(item) | known)
        elif convert := CONVERSIONS.get(item["type"]):
            copies += convert(item)
        elif item["type"] in FORWARDED:
            copies.append(said(item))
    return copies


def in_call_order(count: int, calls: Mapping[int, int]) -> Iterator[int]:
    """The places of items, neighbouring outputs in the order of their `calls`.

    Templates tell what a call gave by its place alone (Qwen's does), and clients send outputs as they come in.
    """
    for _, run in groupby(range(count), key=calls.__contains__):
        yield from sorted(run, key=lambda place: calls.get(place, place))


def said(item: Item, *left_out: str) -> Item:
    """A copy of an item without what it does not say: nulls and empty ids."""
    return {
        key: value
        for key, value in item.items()
        if value is not None and key not in left_out and (key != "id" or value)
    }


def message(item: Item) -> list[Item]:
    """A message; an assistant's in the one form that vLLM reads whole."""
    copy = said(item)
    if item["role"] != "assistant":
        return [copy | {"content": with_detail(item["content"])}]
    # vLLM takes an assistant's message as one of the model's own only if all these keys are there,
    # and then reads the first part alone.
    content = item["content"]
    texts = [content] if isinstance(content, str) else [words(part) for part in content]
    if None in texts:
        return [copy]
    text = "".join(text for text in texts if text)
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"status": "completed", **copy, "content": [part]}]


def words(part: Item) -> str | None:
    """What a part of an assistant's message says; None if it is no text."""
    text = part.get("refusal" if part["type"] == "refusal" else "text")
    return text if isinstance(text, str) else None


def with_detail(content: str | list[Item]) -> str | list[Item]:
    """Content or output whose images all have a detail: vLLM requires it."""
    if isinstance(content, str):
        return content
    return [
        {**part, "detail": part.get("detail") or "auto"} if part["type"] == "input_image" else part
        for part in content
    ]


def reasoning(item: Item) -> list[Item]:
    """What the model thought, without what is opaque: vLLM refuses `encrypted_content`.

    As one part, since vLLM reads no other; a summary stands for what is not there, since llama.cpp refuses an item
    without content, and vLLM forgets it with some models.
    """
    text = thought(item)
    if not text:
        return []
    part = {"type": "reasoning_text", "text": text}
    return [{"summary": [], **said(item, "encrypted_content", "status"), "content": [part]}]


def thought(item: Item) -> str:
    """What the model thought: its own words, else those that we sealed, else their summary."""
    texts = (
        plain(item.get("content") or ""),
        unseal(item.get("encrypted_content") or ""),
        plain(item.get("summary") or ""),
    )
    return next(filter(None, texts), "")


def call(item: Item, tools: ToolMap) -> Item:
    """A call as the model made it: a function's, under its visible name."""
    copy = said(item, "namespace", "input", "caller", "async", "result")
    copy["type"] = "function_call"
    copy["name"] = tools.visible(Key(item["name"], item.get("namespace")))
    if item["type"] == "custom_tool_call":
        copy["arguments"] = dumps({"input": item["input"]}).decode()
    else:
        copy["arguments"] = parsable(item["arguments"])
    if str(copy.get("id")).startswith("ctc_"):
        copy["id"] = copy["id"].replace("ctc_", "fc_", 1)
    return copy


def parsable(arguments: str) -> str:
    """Arguments that a chat template can parse, as vLLM's do with every call of the history.

    One call whose arguments are no JSON object would else spoil all later turns.
    """
    if not arguments.strip():
        return "{}"
    try:
        value = loads(arguments.encode())
    except ValueError:
        value = None
    return arguments if isinstance(value, dict) else dumps({"raw": arguments}).decode()


def output(item: Item) -> Item:
    """What a call gave, a custom call's too. Text alone is one string: vLLM takes no list where the model is gpt-oss."""
    copy = said(item, "caller", "name", "namespace")
    given = item["output"]
    given = with_detail(given) if attachments(given) else plain(given)
    return copy | {"type": "function_call_output", "output": given}


CONVERSIONS: Final[dict[str, Callable[[Item], list[Item]]]] = {
    "message": message,
    "reasoning": reasoning,
}

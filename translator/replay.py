"""What the gateway ran in earlier turns, as the model knows it: calls and their outputs.

In: items of the history and the input, in order, `mcp_call`, `web_search_call` and approvals among them. Out: the same
items, those replaced by a `function_call` and a `function_call_output` each; none is left without the other. Called by
`translator.history` and `translator.chat_messages`, which convert what comes out as they convert a client's own calls.

A public item does not tell all that the model was told (a search shows its query, never what was found). Where the
log of its response has it, the item carries it as `result`: `{"content": text, "images": [data URLs], "round": "resp_…/n"}`,
put there when the history was read; a client's word for it does not count (`translator.protocol.request`). A search
without it is left out: what the model made of it stands in its messages.

| item                                        | becomes                                               |
|---------------------------------------------|-------------------------------------------------------|
| mcp_call, web_search_call with a result     | call and output, in its place                         |
| mcp_approval_response that approves         | call and output of the `mcp_call` that it led to      |
| mcp_approval_response that refuses          | the requested call, and an output that says so        |
| mcp_approval_request, mcp_list_tools        | nothing: a question without an answer is no call      |

Calls that follow each other are one turn of the model's, unless they are known to be of two rounds: their outputs come
after the last of them.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from translator.declarations import WEB_SEARCH
from translator.ids import replayed_call_id
from translator.items import CALLS
from translator.protocol.json import dumps
from translator.toolmap import ToolMap, key_on_server, question_of
from translator.upstream_item import arguments_of, listed

Item = dict[str, Any]

REFUSED: Final = "The user did not approve this call."
NOT_THERE: Final = "The tool is not available any more."
GATEWAY_ITEMS: Final = frozenset(
    {
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "web_search_call",
    }
)


def replayed(items: Iterable[Item], tools: ToolMap) -> list[Item]:
    """The items as the model knows them."""
    items = list(items)
    if not any(item["type"] in GATEWAY_ITEMS for item in items):
        return items
    talk = Conversation(items, tools)
    found: list[Item] = []
    outputs: list[Item] = []
    turn: str | None = None  # the round of the last call, where it is known
    for item in items:
        pair, called = talk.pair(item), round_of(item)
        if called is not None and turn not in (None, called):
            found += outputs
            outputs = []
        # Behind an answer another round begins.
        turn = called or turn or item.get("approval_request_id")
        if pair is not None:
            found.append(pair[0])
            outputs.append(pair[1])
        elif item["type"] not in GATEWAY_ITEMS:
            if item["type"] not in CALLS:
                found += outputs
                outputs, turn = [], None
            found.append(item)
    return found + outputs


class Conversation:
    """Questions, answers and runs of a conversation, by what belongs to which."""

    def __init__(self, items: list[Item], tools: ToolMap) -> None:
        self._tools = tools
        self._requests = {
            item["id"]: item for item in items if item["type"] == "mcp_approval_request"
        }
        self._led_to = led_to(items)
        # By identity: a call that was approved and not run, being one too many, has no id.
        self._told = set(map(id, self._led_to.values()))
        self._answers: Counter[str] = Counter()  # to each question so far

    def pair(self, item: Item) -> tuple[Item, Item] | None:
        """The call that an item stands for, and its output."""
        match item["type"]:
            case "mcp_call":
                if was_cut(item) or id(item) in self._told:
                    return None  # nothing was called, or its answer stands for it
                return on_server(item, item["id"], self._tools, result_of(item))
            case "web_search_call" if known_result(item) is not None:
                return search(item)
            case "mcp_approval_response":
                # `check_approvals` has seen it.
                request = self._requests[item["approval_request_id"]]
                place = place_of(item, self._answers)
                output = answer(item, self._led_to.get(place))
                return on_server(request, place, self._tools, output)
            case _:
                return None


def place_of(response: Item, answers: Counter[str]) -> str:
    """A name for the next answer to a question, which is counted: a client may answer again."""
    asked: str = response["approval_request_id"]
    answers[asked] += 1
    return f"{asked}/{answers[asked]}"


def led_to(items: Iterable[Item]) -> dict[str, Item]:
    """The run that each yes led to, by the answer's place.

    A yes that is repeated means the run that was. One after which the model spoke before any run has led to none where a
    later one may have: an answer does not change what the model knew when it spoke.
    """
    answers: Counter[str] = Counter()
    ran: dict[str, Item] = {}
    waiting: dict[str, list[str]] = {}
    passed: dict[str, list[str]] = {}  # those after which the model spoke
    found: dict[str, Item] = {}
    for item in items:
        if item["type"] == "mcp_approval_response":
            place, asked = place_of(item, answers), item["approval_request_id"]
            if not item["approve"]:
                continue
            if asked in ran:
                found[place] = ran[asked]
            waiting.setdefault(asked, []).append(place)
        elif item["type"] == "mcp_call" and (asked := question_of(item)):
            ran[asked] = item
            earlier = passed.pop(asked, [])[-1:]
            found |= dict.fromkeys(waiting.pop(asked, earlier), item)
        elif item.get("role") == "assistant":
            for asked, places in waiting.items():
                passed.setdefault(asked, []).extend(places)
            waiting.clear()
    return found


def was_cut(item: Item) -> bool:
    """Whether the model was stopped inside a call, so that it never ran: then it has not called."""
    told = (known_result(item), item.get("output"), item.get("error"))
    return item.get("status") == "incomplete" and told == (None, None, None)


def round_of(item: Item) -> str | None:
    """The round in which a call was made, its response's id and number, where the log of that was read."""
    result = item.get("result")
    found = result.get("round") if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def on_server(
    item: Item, place: str, tools: ToolMap, output: str | list[Item]
) -> tuple[Item, Item] | None:
    """A call of an MCP tool, or what was asked about it, and its output; nothing if the item does not say which tool."""
    key = key_on_server(item)
    return key and pair_of(place, tools.visible(key), arguments_of(item), output)


def search(item: Item) -> tuple[Item, Item]:
    """A web search and what was found."""
    action = item.get("action")
    said = action if isinstance(action, dict) else {}  # it may come from a client
    query, queries = said.get("query"), texts_in(said.get("queries"))
    one = query if isinstance(query, str) else ""
    asked = {"queries": queries} if len(queries) > 1 else {"query": one}
    return pair_of(item["id"], WEB_SEARCH, dumps(asked).decode(), result_of(item))


def pair_of(item_id: str, name: str, arguments: str, output: str | list[Item]) -> tuple[Item, Item]:
    """A call and its output; the call's id comes from the item's, so that it is the same in every turn."""
    call_id = replayed_call_id(item_id)
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return call, {"type": "function_call_output", "call_id": call_id, "output": output}


def answer(response: Item, led_to: Item | None) -> str | list[Item]:
    """What the model hears of a call that the client was asked about."""
    if led_to is not None:
        return result_of(led_to)
    if response["approve"]:
        return error_text(NOT_THERE)
    reason = response.get("reason")
    return error_text(f"{REFUSED} {reason}" if reason else REFUSED)


def result_of(item: Item) -> str | list[Item]:
    """The output of a call that was run: what the log says, else what the client was shown of it."""
    known = known_result(item)
    if known is not None:
        return known
    if item.get("output") is not None:
        return str(item["output"])
    return error_text(message_of(item.get("error")))


def known_result(item: Item) -> str | list[Item] | None:
    """What the log of its response says of a call, where it was read."""
    result = item.get("result")
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        return None
    return output_of(result["content"], texts_in(result.get("images")))


def texts_in(value: Any) -> list[str]:
    """The texts in a list; anything else says nothing."""
    return [one for one in listed(value) if isinstance(one, str)]


def output_of(content: str, images: list[str] | None) -> str | list[Item]:
    """A call's result as an output: its text, and images beside it."""
    if not images:
        return content
    parts: list[Item] = [{"type": "input_text", "text": content}]
    parts += [{"type": "input_image", "image_url": url, "detail": "auto"} for url in images]
    return parts


def message_of(error: Any) -> str:
    """What an item's error says."""
    if isinstance(error, dict):
        content = error.get("content")
        first = content[0] if isinstance(content, list) and content else error
        error = first.get("text") or first.get("message") if isinstance(first, dict) else None
    return error if isinstance(error, str) and error else "The call failed."


def error_text(message: str) -> str:
    """A failure as the model is told it (contract.md section 7)."""
    return dumps({"error": message}).decode()

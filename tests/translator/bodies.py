"""Request bodies for the tests of the request side: short builders, and strategies for odd ones."""

import json
from typing import Any

from hypothesis import strategies as st

from translator import outbound
from translator.protocol.request import Request, parse
from translator.request_entry import input_items
from translator.toolmap import ToolMap

RID = "resp_" + "0" * 31 + "1"
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}


def request(**fields: Any) -> Request:
    """A parsed request of one field or more."""
    return parse(json.dumps({"model": "tiny", "input": "hi", **fields}).encode())


def check(
    made: Request, history: Any = (), formats: Any = "reject", api: Any = "responses"
) -> None:
    outbound.check(
        made, history, api=api, custom_formats=formats, gateway_tools={"web_search", "mcp"}
    )


def body_of(
    body: dict[str, Any], items: Any, history: Any = (), *, api: Any = "responses", **more: Any
) -> dict[str, Any]:
    """The body of round 1."""
    tools = ToolMap.of(body, items, history)
    return outbound.upstream_body(body, [*history, *items], tools, api=api, **more)


def sent_up(history: Any = (), **fields: Any) -> dict[str, Any]:
    """What goes upstream for a request, once it has been checked."""
    made = request(**fields)
    check(made, history)
    items = input_items(RID, made)
    return body_of(made.body, items, history)


def sent_chat(history: Any = (), *, thoughts_in: Any = "none", **fields: Any) -> dict[str, Any]:
    """What goes to an upstream that speaks Chat Completions for a request, once it has been checked."""
    made = request(**fields)
    check(made, history, "validate", "chat")
    items = input_items(RID, made)
    return body_of(made.body, items, history, api="chat", reasoning_history=thoughts_in)


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object"}, **more}


def custom(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "custom", "name": name, **more}


def namespace(name: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "", "tools": list(tools)}


def additional(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


def stand_in(name: str, **more: Any) -> dict[str, Any]:
    """The function that stands for a custom tool upstream."""
    schema = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "parameters": schema, **more}


def user(content: Any = "go on") -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def call(call_id: str, name: str = "get", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **more,
    }


def custom_call(call_id: str, name: str = "exec", text: str = "ls", **more: Any) -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": text, **more}


def output(call_id: str, given: Any = "done", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": given}


def custom_output(call_id: str, given: Any = "done") -> dict[str, Any]:
    return output(call_id, given, "custom_tool_call_output")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 20)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["exec", "get", "web_search", "a b", "x" * 70])
CALL_IDS = st.sampled_from(["c1", "c2", "c3"])


def some(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


TOOLS = st.one_of(
    some(description=st.none() | st.text(max_size=5), strict=st.none() | st.booleans()).flatmap(
        lambda more: NAMES.map(lambda name: function(name, **more))
    ),
    st.builds(
        lambda name, more: custom(name, **more),
        NAMES,
        some(
            description=st.none() | st.text(max_size=5),
            format=st.sampled_from([None, {"type": "text"}]),
        ),
    ),
)
NAMESPACES = st.builds(
    lambda name, tools: namespace(name, *tools), NAMES, st.lists(TOOLS, max_size=3)
)
ANY_TOOLS = st.lists(TOOLS | NAMESPACES, max_size=4)
PART = {"type": "input_text", "text": "a"}
PARTS = st.sampled_from(
    [
        PART,
        {"type": "output_text", "text": "b"},
        {"type": "refusal", "refusal": "no"},
        {"type": "input_image", "image_url": "data:image/png;base64,QQ=="},
        {"type": "input_audio", "data": 5},
    ]
)
STATUS = some(
    id=st.sampled_from(["", None, "msg_1", "ctc_1", "x"]),
    status=st.sampled_from([None, "completed", "incomplete"]),
    namespace=st.sampled_from([None, "exec", "gone"]),
)
SINGLE = st.one_of(
    st.builds(
        lambda role, content, more: {"role": role, "content": content, **more},
        st.sampled_from(["user", "assistant", "system", "developer"]),
        st.text(max_size=5) | st.lists(PARTS, max_size=3),
        STATUS,
    ),
    st.builds(lambda tools: additional(*tools), ANY_TOOLS),
    st.builds(lambda i, n, a, m: call(i, n, a, **m), CALL_IDS, NAMES, st.text(max_size=5), STATUS),
    st.sampled_from(
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "blob"},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "compaction", "encrypted_content": "blob"},
            {"type": "shell_call", "call_id": "c9", "action": {}},
        ]
    ),
)
ANSWERED = st.one_of(
    st.builds(
        lambda i, n, a, m: [call(i, n, a, **m), output(i)], CALL_IDS, NAMES, st.text(), STATUS
    ),
    st.builds(
        lambda i, n, t, m: [custom_call(i, n, t, **m), custom_output(i, [PART])],
        CALL_IDS,
        NAMES,
        st.text(),
        STATUS,
    ),
)
ITEMS = st.lists(ANSWERED | SINGLE.map(lambda item: [item]), max_size=4).map(
    lambda groups: [item for group in groups for item in group]
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Bodies that are mostly right, with names and call ids that meet."""
    tools = draw(ANY_TOOLS)
    body = {"model": "tiny", "tools": tools, "input": draw(st.text(max_size=5) | ITEMS)}
    declared = [(tool["type"], tool["name"]) for tool in tools if tool["type"] != "namespace"]
    pairs = st.tuples(st.sampled_from(["function", "custom"]), NAMES)
    selector = (st.sampled_from(declared) if declared else pairs) | pairs
    choice = draw(st.lists(selector, max_size=2))
    if choice:
        selectors = [{"type": kind, "name": name} for kind, name in choice]
        mode = draw(st.sampled_from([None, "auto", "required"]))
        limit = {"type": "allowed_tools", "mode": mode, "tools": selectors}
        body["tool_choice"] = draw(st.sampled_from([selectors[0], limit]))
    return body


BODIES = bodies()

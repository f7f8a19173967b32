"""Whatever an upstream runs itself and tells of it, its response can be continued."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.translator.bodies import JSON, body_of, check, request, some, user
from tests.translator.drive import RID, Log, completed, done, fold, play
from tests.translator.test_replay import SERVER, answered
from translator.preparation import questions
from translator.request_entry import history_of, input_items

ODD = JSON | st.sampled_from(
    [
        "docs",
        [5],
        {"a": []},
        [{"foo": 1}],
        [{"name": "look", "annotations": "x"}],
        [{"name": "look", "description": 5}],
    ]
)
TOLD = st.builds(
    lambda kind, said: {"type": kind, **said},
    st.sampled_from(["mcp_list_tools", "mcp_call", "mcp_approval_request", "web_search_call"]),
    some(
        server_label=st.just("docs") | ODD,
        name=st.just("look") | ODD,
        arguments=st.just("{}") | ODD,
        approval_request_id=ODD,
        tools=st.just([{"name": "look"}]) | ODD,
        action=ODD | some(query=ODD, queries=ODD),
        output=ODD,
        error=ODD,
        status=ODD,
        declared=ODD | some(server_url=ODD, allowed_tools=ODD),
        result=ODD | some(content=st.just("seen") | ODD, images=ODD, round=ODD),
    ),
)
SERVERS = st.builds(
    lambda rule, allowed: SERVER | {"require_approval": rule, "allowed_tools": allowed},
    st.sampled_from(["never", "always", {"never": {"read_only": True}}]),
    st.sampled_from([None, ["look"], {"read_only": True}]),
)
APIS = st.sampled_from(["responses", "chat"])


@given(st.lists(TOLD, min_size=1, max_size=3), st.booleans(), SERVERS, APIS)
def test_what_an_upstream_has_run_itself_never_stops_the_next_turn(
    items: list[dict[str, Any]], declared: bool, server: dict[str, Any], api: str
) -> None:
    told = play(*(done({**item, "id": f"up_{n}"}, n) for n, item in enumerate(items)), completed())
    first = {"request": {"tools": [server] if declared else []}, "input": [], "history": []}
    history = history_of(first, told.output)  # type: ignore[arg-type]
    asked = [answered(True, one["id"]) for one in questions(history)]
    made = request(tools=[server], input=[user(), *asked])
    check(made, history, "validate", api)
    items = input_items(RID, made)
    json.dumps(body_of(made.body, items, history, api=api))
    log = Log(tools=[server], _history=history, _input=items, _api=api)
    log.add("tools_listed", {"key": "list.0", "tools": [{"name": "look"}], "error": None})
    assert not fold(log.entries).machine.terminal

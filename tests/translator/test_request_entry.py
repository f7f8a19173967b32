"""The first entry holds all that the fold needs, and no secret."""

import re

from tests.translator.bodies import (
    RID,
    additional,
    call,
    custom,
    custom_call,
    custom_output,
    output,
    request,
    user,
)
from translator.ids import input_item_id
from translator.protocol.json import MAX_DEPTH, loads
from translator.protocol.upstream import Upstream
from translator.request_entry import history_of, input_items, request_entry

UPSTREAM = Upstream("main", "http://host-of-ours/v1", "responses", "key-of-ours", ("tiny",))


def entry(made, history=()):
    raw = request_entry(RID, "me", made, history, upstream=UPSTREAM, limits={"max_rounds": 10})
    return loads(raw)


def test_the_whole_entry():
    assert entry(request(temperature=0, x_unknown=None), [user()]) == {
        "version": 1,
        "id": RID,
        "tenant": "me",
        "request": {"model": "tiny", "temperature": 0, "x_unknown": None},
        "input": [
            {
                "type": "message",
                "role": "user",
                "id": input_item_id(RID, 0, "msg"),
                "content": [{"type": "input_text", "text": "hi"}],
            }
        ],
        "history": [user()],
        "upstream": {
            "id": "main",
            "api": "responses",
            "custom_formats": "reject",
            "reasoning_history": "none",
        },
        "limits": {"max_rounds": 10},
    }


def test_a_trace_is_a_part_of_the_entry_where_there_is_one():
    trace = {"traceparent": "00-1-2-01", "parent": "", "tracestate": ""}
    raw = request_entry(RID, "me", request(), [], upstream=UPSTREAM, limits={}, trace=trace)
    assert loads(raw)["trace"] == trace


def test_every_input_item_has_an_id_of_the_clients_or_a_derived_one():
    made = request(
        input=[
            user() | {"id": "mine"},
            user() | {"id": ""},
            user() | {"id": None},
            call("a"),
            output("a"),
            custom_call("b"),
            custom_output("b"),
            additional(),
            {"type": "reasoning", "summary": []},
            {"type": "shell_call"},
        ]
    )
    ids = [item["id"] for item in input_items(RID, made)]
    assert ids[0] == "mine"
    prefixes = ["msg", "msg", "fc", "fco", "ctc", "ctco", "at", "rs", "item"]
    for given, prefix in zip(ids[1:], prefixes, strict=True):
        assert re.fullmatch(prefix + "_[0-9a-f]{48}", given)
    assert len(set(ids)) == len(ids)
    assert ids == [item["id"] for item in input_items(RID, made)]


def test_a_text_is_listed_as_a_part():
    made = request(input=[user("a"), {"role": "assistant", "content": "b"}, user([])])
    assert [item["content"] for item in input_items(RID, made)] == [
        [{"type": "input_text", "text": "a"}],
        [{"type": "output_text", "text": "b", "annotations": []}],
        [],
    ]


def test_no_secret_is_in_the_entry():
    server = {
        "type": "mcp",
        "server_label": "a",
        "authorization": "s3cret",
        "headers": {"k": "s3cret"},
    }
    made = request(tools=[server, custom("exec")], input=[additional(server)])
    raw = request_entry(RID, "me", made, [], upstream=UPSTREAM, limits={})
    assert not re.search(rb"s3cret|key-of-ours|host-of-ours", raw)
    assert made.body["tools"][0]["authorization"] == "s3cret", "the tool workers get it elsewhere"


def test_a_chain_is_earlier_input_and_output_oldest_first():
    first = entry(request(input=[user("1")]))
    history = history_of(first, [call("a")])
    second = entry(request(input=[output("a")]), history)
    chained = history_of(second, [{"type": "message", "id": "msg_9"}])
    assert [item["type"] for item in chained] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]


def test_the_deepest_body_that_is_read_can_be_read_from_its_entry():
    deep = "x"
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert entry(request(x_deep=deep))["request"]["x_deep"] == deep


def test_a_later_turn_does_not_know_the_servers_that_an_input_item_declared():
    server = {"type": "mcp", "server_label": "a", "server_url": "https://a.example/mcp"}
    item = {"type": "additional_tools", "id": "at_1", "tools": [{"type": "web_search"}, server]}
    entry = {"request": {}, "input": [item], "history": []}
    assert history_of(entry, []) == [item | {"tools": [{"type": "web_search"}]}]


def test_items_that_the_caller_has_already_make_the_same_entry():
    made = request(input=[user("a"), user([])])
    bare = request_entry(RID, "me", made, [], upstream=UPSTREAM, limits={})
    items = input_items(RID, made)
    assert request_entry(RID, "me", made, [], upstream=UPSTREAM, limits={}, items=items) == bare

"""What the gateway ran in earlier turns goes up as the calls and outputs that the model knows, none without the other."""

import json

import pytest

from tests.translator.bodies import function, sent_chat, sent_up, user

SERVER = {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp"}
LISTED = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "docs",
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}
TOOLS = [{"type": "web_search"}, SERVER, function("get")]


def search(ident="ws_1", result="found", **action):
    item = {"type": "web_search_call", "id": ident, "status": "completed"}
    item["action"] = {"type": "search", "query": "q", **action}
    return item | ({"result": {"content": result, "images": None}} if result else {})


def ran(ident="mcp_1", **more):
    item = {"type": "mcp_call", "id": ident, "server_label": "docs", "name": "look"}
    return item | {"arguments": '{"a":1}', "output": "seen", "error": None} | more


def asked(ident="mcpr_1"):
    item = {"type": "mcp_approval_request", "id": ident, "server_label": "docs", "name": "look"}
    return item | {"arguments": '{"a":1}'}


def answered(approve, ident="mcpr_1", **more):
    item = {"type": "mcp_approval_response", "id": f"mcpa_{ident}", "approval_request_id": ident}
    return item | {"approve": approve} | more


def up(*history, items=(), **fields):
    """The items that go up, calls and outputs in short."""
    sent = sent_up([LISTED, *history], tools=TOOLS, input=[*items, user()], **fields)["input"]
    ids = {
        item["call_id"]: f"#{n}"
        for n, item in enumerate(i for i in sent if i["type"] == "function_call")
    }
    short = {
        "function_call": lambda i: (ids[i["call_id"]], i["name"], i["arguments"]),
        "function_call_output": lambda i: (ids[i["call_id"]], i["output"]),
    }
    return [short.get(i["type"], lambda i: i["type"])(i) for i in sent][:-1]


def message(text):
    return {"type": "message", "role": "assistant", "content": text, "id": "msg_1"}


def failure(message):
    return json.dumps({"error": message}, separators=(",", ":"))


def test_a_search_comes_back_with_what_it_found_and_without_that_not_at_all():
    assert up(search()) == [("#0", "web_search", '{"query":"q"}'), ("#0", "found")]
    several = search(queries=["a", "b"])
    assert up(several)[0] == ("#0", "web_search", '{"queries":["a","b"]}')
    assert up(search(result=None)) == []
    for odd in ({"result": 7}, {"result": {"content": 7}}):
        assert up(search(result=None) | odd) == []


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        ("x", '{"query":""}'),
        (None, '{"query":""}'),
        ({"query": 5, "queries": "ab"}, '{"query":""}'),
        ({"query": "q", "queries": ["a", 5]}, '{"query":"q"}'),
        ({"queries": ["a", 5, "b"]}, '{"queries":["a","b"]}'),
    ],
)
def test_a_search_that_is_told_oddly_still_comes_back_with_what_it_found(action, asked):
    assert up(search() | {"action": action}) == [("#0", "web_search", asked), ("#0", "found")]


def test_a_call_on_a_server_comes_back_under_its_visible_name():
    assert up(ran()) == [("#0", "docs__look", '{"a":1}'), ("#0", "seen")]
    elsewhere = ran(server_label="gone", name="odd name")
    assert up(elsewhere)[0][1].startswith("gone__odd_name_")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"type": "http_error", "code": 502, "message": "away"}, "away"),
        ({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]}, "no"),
        ({"type": "mcp_tool_execution_error", "content": [7]}, "The call failed."),
        ("bad", "bad"),
        (None, "The call failed."),
    ],
)
def test_a_failed_call_comes_back_with_its_error(error, message):
    assert up(ran(output=None, error=error))[1] == ("#0", failure(message))


def test_images_of_a_result_go_up_beside_its_text():
    result = {"content": "[image 1: image/png]", "images": ["data:image/png;base64,AA"]}
    assert up(ran(result=result))[1] == (
        "#0",
        [
            {"type": "input_text", "text": "[image 1: image/png]"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
        ],
    )


def test_images_of_a_result_that_are_none_do_not_go_up():
    for images in ([5], "x", [None]):
        assert up(ran(result={"content": "c", "images": images}))[1] == ("#0", "c")


def test_calls_in_a_row_are_one_turn_and_their_outputs_follow_in_order():
    said = message("so")
    call = {"type": "function_call", "call_id": "c", "name": "get", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "o"}
    assert up(search(), ran(), said, search("ws_2"), call, items=[output]) == [
        ("#0", "web_search", '{"query":"q"}'),
        ("#1", "docs__look", '{"a":1}'),
        ("#0", "found"),
        ("#1", "seen"),
        "message",
        ("#2", "web_search", '{"query":"q"}'),
        ("#3", "get", "{}"),
        ("#2", "found"),
        ("#3", "o"),
    ]


def in_round(number, item, response="resp_a"):
    known = {"content": f"of {number}", "images": None, "round": f"{response}/{number}"}
    return item | {"result": known}


def test_calls_of_two_rounds_are_two_turns_of_the_models():
    runs = [
        in_round(0, ran("a")),
        in_round(1, ran("b")),
        in_round(1, ran("c")),
        in_round(2, search()),
    ]
    call = {"type": "function_call", "call_id": "c", "name": "get", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "o"}
    called = lambda at: (f"#{at}", "docs__look", '{"a":1}')  # noqa: E731
    last = [("#3", "web_search", '{"query":"q"}')]
    expected = [
        *(called(0), ("#0", "of 0"), called(1), called(2), ("#1", "of 1"), ("#2", "of 1")),
        *last,
    ]
    alone, mine = ("#3", "of 2"), ("#4", "get", "{}")
    for number, end in ((2, [mine, alone]), (3, [alone, mine])):
        known = call | {"result": {"round": f"resp_a/{number}"}}
        assert up(*runs, known, items=[output]) == [*expected, *end, ("#4", "o")]
    # Where a client brings its call itself, nobody knows better.
    assert up(*runs, call, items=[output]) == [*expected, mine, alone, ("#4", "o")]


def test_what_is_called_behind_an_answer_is_another_turn_of_the_models():
    refused = failure("The user did not approve this call.")
    called = lambda at: (f"#{at}", "docs__look", '{"a":1}')  # noqa: E731
    alone = [called(0), ("#0", refused), called(1), ("#1", "of 1")]
    asking, after = [asked(), answered(False)], in_round(1, ran("b"), "resp_b")
    assert up(*asking, after) == alone
    before = in_round(1, ran("a"))
    assert up(before, *asking, after) == [
        *(called(0), called(1), ("#0", "of 1"), ("#1", refused), called(2), ("#2", "of 1")),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "mcp_list_tools", "server_label": "up", "tools": [{"description": "x"}, 5]},
        {"type": "mcp_list_tools", "server_label": "up", "tools": None},
        {"type": "mcp_list_tools", "server_label": ["up"], "tools": []},
        {"type": "mcp_approval_request", "id": "x", "name": "n"},
        {"type": "mcp_call", "id": "x", "name": None, "server_label": "up", "output": "o"},
        {"type": "mcp_call", "id": "x"},
        {
            "type": "mcp_list_tools",
            "server_label": "docs",
            "tools": [{"name": "look", "annotations": 5}],
        },
    ],
    ids=str,
)
def test_what_an_upstream_ran_itself_and_told_oddly_is_passed_over(odd):
    assert up(odd, ran()) == up(ran())


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ({"arguments": {"a": 1}}, '{"a":1}'),
        ({"arguments": None}, "{}"),
        ({"arguments": 5}, "{}"),
        ({"approval_request_id": ["x"]}, '{"a":1}'),
    ],
)
def test_a_call_that_an_upstream_ran_and_told_oddly_is_told_as_far_as_it_can_be(said, heard):
    assert up(ran(**said)) == [("#0", "docs__look", heard), ("#0", "seen")]


def test_a_call_that_was_cut_off_and_never_ran_was_no_call():
    cut = ran("cut", status="incomplete", arguments='{"a":', output=None)
    assert up(ran(), cut) == up(ran())
    assert up(ran(status="incomplete"))[1] == ("#0", "seen")


def test_an_approved_call_stands_once_where_it_was_approved():
    run = ran(approval_request_id="mcpr_1")
    history = [asked(), user("yes, do"), answered(True), user("meanwhile"), run]
    assert up(*history) == [
        "message",
        ("#0", "docs__look", '{"a":1}'),
        ("#0", "seen"),
        "message",
    ]


def test_an_answer_stays_what_it_was_when_the_client_changes_its_mind():
    refused = failure("The user did not approve this call.")
    called = lambda at: (f"#{at}", "docs__look", '{"a":1}')  # noqa: E731
    said, run = message("So not."), ran(approval_request_id="mcpr_1")
    no_then_yes = [asked(), answered(False), said, answered(True), run]
    assert up(*no_then_yes) == [called(0), ("#0", refused), "message", called(1), ("#1", "seen")]
    yes_then_no = [asked(), answered(True), run, said, answered(False)]
    assert up(*yes_then_no) == [called(0), ("#0", "seen"), "message", called(1), ("#1", refused)]
    yes_again = [asked(), answered(True), run, said, answered(True)]
    assert up(*yes_again) == [called(0), ("#0", "seen"), "message", called(1), ("#1", "seen")]
    gone = failure("The tool is not available any more.")
    gone_then_there = [asked(), answered(True), said, answered(True), run]
    assert up(*gone_then_there) == [called(0), ("#0", gone), "message", called(1), ("#1", "seen")]


def test_an_answer_that_is_said_twice_in_one_turn_means_one_run():
    run = ran(approval_request_id="mcpr_1")
    twice = up(asked(), answered(True), answered(True), run)
    assert [one[1] for one in twice] == ["docs__look", "docs__look", "seen", "seen"]


def test_a_run_that_comes_behind_what_was_said_to_it_is_told_once_where_it_was_allowed():
    run = ran(approval_request_id="mcpr_1")
    told = up(asked(), answered(True), message("Shall I look?"), run)
    assert told[:2] == [("#0", "docs__look", '{"a":1}'), ("#0", "seen")]
    assert len(told) == 3
    assert up(asked(), run, answered(True)) == [("#0", "docs__look", '{"a":1}'), ("#0", "seen")]


def test_a_call_of_which_only_a_refusal_is_left_stands_for_itself():
    run = ran(approval_request_id="mcpr_1")
    assert up(asked(), answered(False), run)[1:] == [
        ("#1", "docs__look", '{"a":1}'),
        ("#0", failure("The user did not approve this call.")),
        ("#1", "seen"),
    ]


def test_a_call_that_was_approved_and_whose_answer_the_client_left_out_still_stands():
    assert up(ran(approval_request_id="mcpr_1")) == up(ran())


def test_a_refused_call_says_so_and_why_and_an_open_question_is_no_call():
    assert up(asked(), items=[answered(False)])[1] == (
        "#0",
        failure("The user did not approve this call."),
    )
    assert up(asked(), items=[answered(False, reason="Too dear.")])[1] == (
        "#0",
        failure("The user did not approve this call. Too dear."),
    )
    assert up(asked()) == []


def test_an_approved_call_that_could_not_be_run_says_so():
    assert up(asked(), answered(True))[1] == (
        "#0",
        failure("The tool is not available any more."),
    )


def test_the_same_call_has_the_same_id_in_every_turn_and_ids_are_short_enough_for_chat():
    def ids(**fields):
        items = sent_up([search(), ran()], tools=TOOLS, **fields)["input"]
        return [item["call_id"] for item in items if item["type"] == "function_call"]

    first, second = ids(input="one"), ids(input="two")
    assert first == second
    assert len(set(first)) == 2
    assert all(len(one) <= 40 for one in first)


def test_chat_gets_them_as_one_turn_of_calls_and_tool_messages():
    messages = sent_chat([search(), ran()], tools=TOOLS, input="go on")["messages"]
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    names = [one["function"]["name"] for one in messages[0]["tool_calls"]]
    assert names == ["web_search", "docs__look"]
    assert [message["content"] for message in messages[1:3]] == ["found", "seen"]

"""What comes before round 1: servers that must list their tools, and calls that the client has approved."""

import json

import pytest

from tests.translator.bodies import additional, check, request, user
from tests.translator.test_replay import LISTED, SERVER, answered, asked, ran
from translator.declarations import MAX_SERVERS, declared
from translator.mcp_servers import servers
from translator.preparation import preparation, secrets_of
from translator.protocol.errors import RequestError
from translator.request_entry import history_of

OTHER = {"type": "mcp", "server_label": "b", "server_url": "https://b.example/mcp"}


def needed(history=(), items=(), tools=(SERVER,)):
    made = request(tools=list(tools), input=[*items, user()])
    check(made, history)
    found = preparation(servers(declared(made.body, made.input)), made.input, history)
    return [one.label for one in found.to_list], [one["id"] for one in found.approved]


def test_servers_are_listed_once_in_a_chain_or_a_conversation():
    assert needed(tools=[OTHER, SERVER]) == (["b", "docs"], [])
    assert needed(history=[LISTED]) == needed(items=[LISTED]) == ([], [])
    assert needed(history=[{**LISTED, "error": "away"}]) == (["docs"], [])
    assert needed(tools=()) == ([], [])


def test_a_server_is_listed_again_where_a_tool_is_allowed_that_it_has_not_listed():
    for allowed in (["look"], {"tool_names": ["look"]}, {"read_only": True}, []):
        assert needed([LISTED], tools=[SERVER | {"allowed_tools": allowed}]) == ([], [])
    for allowed in (["look", "more"], {"tool_names": ["more"]}):
        assert needed([LISTED], tools=[SERVER | {"allowed_tools": allowed}]) == (["docs"], [])


@pytest.mark.parametrize(
    ("then", "now", "again"),
    [
        ({}, {}, False),
        ({}, {"server_url": "https://new.example/mcp"}, True),
        ({}, {"server_url": SERVER["server_url"] + "?key=1"}, False),
        ({"allowed_tools": ["look"]}, {}, True),
        ({"allowed_tools": ["look"]}, {"allowed_tools": ["look"]}, False),
        ({"allowed_tools": ["look", "more"]}, {"allowed_tools": {"read_only": True}}, True),
        ({}, {"allowed_tools": ["look"]}, False),
        ({}, {"allowed_tools": ["look", "more"]}, True),
        ({"allowed_tools": ["look", "typo"]}, {"allowed_tools": ["look", "typo"]}, False),
        ({"allowed_tools": {"tool_names": ["a"]}}, {"allowed_tools": {"tool_names": ["a"]}}, False),
        (
            {"allowed_tools": ["typo"]},
            {"allowed_tools": ["typo"], "server_url": "https://new.example/mcp"},
            True,
        ),
    ],
)
def test_a_server_is_listed_again_where_the_chain_knows_another_or_less_of_it(then, now, again):
    entry = {"request": {"tools": [SERVER | then]}, "input": [], "history": []}
    chain = history_of(entry, [LISTED])
    assert needed(chain, tools=[SERVER | now]) == (["docs"] if again else [], [])


@pytest.mark.parametrize(
    "said",
    [
        *({"tools": tools} for tools in (None, "look", [5], [{"foo": 1}], [{"name": ["look"]}])),
        {"tools": [{"name": "look", "annotations": "x"}]},
        {"server_label": ["docs"]},
        {"server_label": None},
    ],
    ids=str,
)
def test_a_list_that_an_upstream_told_oddly_is_no_list_of_the_server(said):
    silent = {key: value for key, value in LISTED.items() if key not in said}
    for item in (LISTED | said, silent):
        entry = {"request": {"tools": [SERVER]}, "input": [], "history": []}
        assert needed([item]) == needed(history_of(entry, [item])) == (["docs"], [])


@pytest.mark.parametrize("odd", ["server_label", "name", "arguments"])
def test_a_question_that_does_not_say_what_is_asked_cannot_be_answered(odd):
    said = asked()
    silent = {key: value for key, value in said.items() if key != odd}
    for question in (silent, said | {odd: None}, said | {odd: ["x"]}):
        made = request(tools=[SERVER], input=[answered(True)])
        with pytest.raises(RequestError) as caught:
            check(made, [question])
        assert caught.value.param == "input[0].approval_request_id"


def test_a_call_that_names_no_question_leaves_the_question_open():
    asking = [LISTED, asked(), ran(approval_request_id=["mcpr_1"])]
    assert needed(asking, [answered(True)]) == ([], ["mcpr_1"])


def test_a_list_of_which_it_is_not_known_what_was_declared_goes_by_what_it_lists():
    for odd in ("x", None, 5):
        assert needed([LISTED | {"declared": odd}]) == ([], [])


def test_servers_of_additional_tools_count_and_those_of_an_earlier_turn_do_not():
    assert needed(items=[additional(OTHER)]) == (["docs", "b"], [])
    assert needed([additional({"type": "web_search"})], tools=()) == ([], [])


def test_an_approved_call_is_run_once_whoever_repeats_the_answer():
    asking = [LISTED, asked(), asked("mcpr_2")]
    assert needed(asking, [answered(True, "mcpr_2"), answered(True), answered(True)]) == (
        [],
        ["mcpr_2", "mcpr_1"],
    )
    assert needed(asking, [answered(False)]) == ([], [])
    assert needed([*asking, ran(approval_request_id="mcpr_1")], [answered(True)]) == ([], [])
    assert needed([*asking, answered(True)]) == ([], []), "an answer of an earlier turn"


@pytest.mark.parametrize(
    ("history", "tools", "param"),
    [
        ([], [SERVER], "input[0].approval_request_id"),
        ([asked("mcpr_2")], [SERVER], "input[0].approval_request_id"),
        ([asked()], [OTHER], "tools"),
        ([asked()], [], "tools"),
    ],
)
def test_answers_to_nothing_and_calls_of_servers_that_are_not_there_are_refused(
    history, tools, param
):
    made = request(tools=tools, input=[answered(True)])
    with pytest.raises(RequestError) as caught:
        check(made, history)
    assert caught.value.param == param
    assert caught.value.status == 400


def test_an_answer_of_yes_and_no_is_refused():
    made = request(tools=[SERVER], input=[answered(False), answered(True)])
    with pytest.raises(RequestError) as caught:
        check(made, [asked()])
    assert caught.value.param == "input[1].approve"


def test_a_refusal_needs_no_server():
    check(request(input=[answered(False)]), [asked()])


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "mcp_approval_response", "approve": True}, "input[0].approval_request_id"),
        (answered("yes"), "input[0].approve"),
        (ran(arguments={}), "input[0].arguments"),
        ({"type": "mcp_call", "name": "look", "arguments": ""}, "input[0].server_label"),
        ({**LISTED, "tools": [{"name": ""}]}, "input[0].tools[0].name"),
        ({**LISTED, "tools": [{"name": "a", "input_schema": 7}]}, "input[0].tools[0].input_schema"),
    ],
)
def test_items_of_the_gateways_are_checked_where_a_client_hands_them_back(item, param):
    with pytest.raises(RequestError) as caught:
        request(input=[item])
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("said", "param"),
    [
        ({"server_url": "ftp://a.example"}, "tools[0].server_url"),
        ({"server_url": "https://[::1"}, "tools[0].server_url"),
        ({"server_url": "a.example/mcp"}, "tools[0].server_url"),
        ({"allowed_tools": "look"}, "tools[0].allowed_tools"),
        ({"allowed_tools": [7]}, "tools[0].allowed_tools[0]"),
        ({"allowed_tools": {"read_only": "yes"}}, "tools[0].allowed_tools.read_only"),
        ({"require_approval": "often"}, "tools[0].require_approval"),
        ({"require_approval": {"always": 7}}, "tools[0].require_approval.always"),
        ({"headers": {"x y": "v"}}, "tools[0].headers"),
        ({"headers": {"x": "v\r\nz: 1"}}, "tools[0].headers"),
    ],
)
def test_a_servers_declaration_is_checked(said, param):
    with pytest.raises(RequestError) as caught:
        request(tools=[SERVER | said])
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("said", "param"),
    [
        ({"search_context_size": "huge"}, "tools[0].search_context_size"),
        ({"filters": "x"}, "tools[0].filters"),
        ({"filters": {"allowed_domains": "a.example"}}, "tools[0].filters.allowed_domains"),
        ({"filters": {"blocked_domains": [7]}}, "tools[0].filters.blocked_domains[0]"),
        ({"user_location": 5}, "tools[0].user_location"),
    ],
)
def test_a_searchs_declaration_is_checked(said, param):
    with pytest.raises(RequestError) as caught:
        request(tools=[{"type": "web_search", **said}])
    assert caught.value.param == param


def test_no_request_has_more_servers_than_can_be_listed_in_reason():
    many = [SERVER | {"server_label": f"s{n}"} for n in range(MAX_SERVERS + 1)]
    check(request(tools=many[:-1]))
    with pytest.raises(RequestError) as caught:
        check(request(tools=many))
    assert caught.value.param == "tools"


def test_what_workers_need_to_know_of_servers_is_kept_in_order():
    secret = {"server_url": "https://u:p@a.example/mcp?k=1", "headers": {"x": "y"}}
    tools = [SERVER | {"authorization": "tok"}, OTHER | secret, SERVER | {"authorization": "tok"}]
    found = secrets_of(servers(declared({"tools": tools}, [])))
    assert found is not None
    assert json.loads(found) == {
        "servers": [
            {"url": SERVER["server_url"], "authorization": "tok", "headers": None},
            {"url": secret["server_url"], "authorization": None, "headers": {"x": "y"}},
        ]
    }
    assert secrets_of(servers(declared({"tools": [{"type": "web_search"}]}, []))) is None

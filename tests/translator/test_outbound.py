"""The exact body that goes upstream, and the laws that hold for every one."""

import json

import pytest
from hypothesis import given

from tests.translator.bodies import (
    BODIES,
    RID,
    additional,
    body_of,
    custom,
    function,
    namespace,
    request,
    sent_up,
    stand_in,
    user,
)
from translator import outbound
from translator.protocol.errors import RequestError
from translator.protocol.json import dumps
from translator.protocol.request import parse
from translator.request_entry import input_items


def test_the_whole_body_of_a_plain_request():
    body = sent_up(input=[user("hi") | {"id": "msg_1"}], temperature=0, metadata={"case": "1"})
    assert body == {
        "model": "tiny",
        "input": [
            {
                "type": "message",
                "role": "user",
                "id": "msg_1",
                "content": [{"type": "input_text", "text": "hi"}],
            }
        ],
        "temperature": 0,
        "metadata": {"case": "1"},
        "stream": True,
        "store": False,
    }


def test_custom_tools_go_up_as_functions_with_one_required_string():
    tools = [custom("exec", description="Runs", format={"type": "text"}), custom("note")]
    assert sent_up(tools=tools)["tools"] == [stand_in("exec", description="Runs"), stand_in("note")]


def test_functions_go_up_as_they_are_but_for_nulls():
    tool = function("get", strict=False, parameters={"type": "object", "encrypted": None})
    assert sent_up(tools=[tool | {"description": None}])["tools"] == [tool]
    assert "strict" not in sent_up(tools=[tool | {"strict": None}])["tools"][0]


def test_additional_tools_and_namespaces_are_promoted_once():
    tools = [function("get"), namespace("n", custom("exec"), function("get"))]
    names = [tool["name"] for tool in sent_up(tools=tools, input=[additional(*tools)])["tools"]]
    assert names[:2] == ["get", "exec"]
    assert len(names) == 3
    declares = additional(namespace("functions", custom("exec")))
    body = sent_up(input=[declares, user()], tool_choice="auto")
    assert body["tools"] == [stand_in("exec")]
    assert body["tool_choice"] == "auto"


def test_what_is_between_client_and_gateway_stays_there():
    body = sent_up(
        background=True,
        stream=False,
        store=True,
        previous_response_id="resp_x",
        background_options={"completion_window": "2h"},
        conversation=None,
    )
    assert set(body) == {"model", "input", "stream", "store"}
    assert (body["stream"], body["store"]) == (True, False)


def test_unknown_fields_are_forwarded_and_known_nulls_are_not():
    nulls = dict.fromkeys(("user", "service_tier", "prompt"))
    body = sent_up(top_k=5, vllm_xargs=None, temperature=0, seed=0, **nulls)
    assert {"top_k": 5, "vllm_xargs": None, "temperature": 0, "seed": 0}.items() <= body.items()
    assert not nulls.keys() & body.keys()


def test_included_values_go_up_but_for_the_gateways_own():
    given = ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert sent_up(include=given)["include"] == given[:1]
    assert "include" not in sent_up(include=given[1:])


@pytest.mark.parametrize("asked", [True, False])
def test_parallel_calls_go_up_as_asked(asked):
    assert sent_up(parallel_tool_calls=asked)["parallel_tool_calls"] is asked


def test_parallel_calls_are_the_upstreams_business_where_nobody_asks():
    assert "parallel_tool_calls" not in sent_up(tools=[function("get")], parallel_tool_calls=None)


def test_parallel_calls_are_off_with_a_tool_that_the_gateway_runs():
    body = {"model": "tiny", "tools": [{"type": "web_search"}]}
    sent = body_of(body, [])
    assert sent["parallel_tool_calls"] is False
    assert [tool["name"] for tool in sent["tools"]] == ["web_search"]


def test_each_dialect_gets_its_own_body():
    made = request()
    items = input_items(RID, made)
    keys = {api: set(body_of(made.body, items, api=api)) for api in ("responses", "chat")}
    assert keys["responses"] == {"model", "input", "stream", "store"}
    assert keys["chat"] == {"model", "messages", "stream", "stream_options"}


def made(body):
    """A body through the whole way; None if it was refused."""
    try:
        request = parse(json.dumps(body).encode())
        outbound.check(request, api="responses", custom_formats="reject")
    except RequestError:
        return None
    before = dumps(request.body)
    items = input_items(RID, request)
    sent = body_of(request.body, items)
    assert dumps(request.body) == before, "only the copy is converted"
    return items, sent


@given(BODIES)
def test_what_check_lets_through_goes_up_without_anything_custom(body):
    if done := made(body):
        _, sent = done
        assert {item["type"] for item in sent["input"]} <= {
            "message",
            "function_call",
            "function_call_output",
            "reasoning",
            "shell_call",
        }
        assert {tool["type"] for tool in sent.get("tools", ())} <= {"function"}
        names = [tool["name"] for tool in sent.get("tools", ())]
        assert len(set(names)) == len(names)
        choice = sent.get("tool_choice")
        if isinstance(choice, dict):
            chosen = choice["tools"] if choice["type"] == "allowed_tools" else [choice]
            assert {one["type"] for one in chosen} == {"function"}
            assert {one["name"] for one in chosen} <= set(names)


@given(BODIES)
def test_every_call_that_goes_up_has_an_output_and_arguments_that_are_an_object(body):
    if done := made(body):
        _, sent = done
        calls = [item for item in sent["input"] if item["type"] == "function_call"]
        outputs = [item for item in sent["input"] if item["type"] == "function_call_output"]
        assert {one["call_id"] for one in calls} == {one["call_id"] for one in outputs}
        assert all(isinstance(json.loads(one["arguments"]), dict) for one in calls)


@given(BODIES)
def test_a_converted_history_goes_up_unchanged(body):
    if done := made(body):
        _, sent = done
        again = body_of({"model": "tiny"}, sent["input"])
        assert again["input"] == sent["input"]

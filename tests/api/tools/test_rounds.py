"""How rounds end, and what the next one is told: also when the model stops too early, or is not to be reached."""

import json

from tests.api.tools.model import Call, Part, Say, Think, mcp_call, search
from tests.api.tools.rig import FUNCTION, SEARCH, Equip, Rig

ANSWER: list[Part] = [Say("Done.")]


async def test_a_round_that_breaks_off_runs_nothing(rig: Rig, stream: bool):
    """The upstream ends without a word of its end: the calls that it made may not be whole."""
    rig.model.script([mcp_call("echo", "a")])
    rig.model.ending = "cut"
    turn = await rig.turn(stream, tools=[rig.server()])
    assert turn.response["status"] == "failed"
    assert turn.response["error"]["code"] == "server_error"
    assert rig.mcp.calls == []
    (item,) = turn.of("mcp_call")
    assert (item["status"], item["output"]) == ("incomplete", None)


async def test_a_round_at_the_limit_of_its_tokens_runs_what_is_whole(rig: Rig, stream: bool):
    rig.model.script([mcp_call("echo", "a"), Call("look", '{"text": "b', "s")])
    rig.model.ending = "limited"
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    assert turn.response["status"] == "incomplete"
    assert turn.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert rig.mcp.calls == [("echo", {"text": "a"})]
    whole, *rest = turn.of("mcp_call")
    assert (whole["status"], whole["output"]) == ("completed", "a")
    assert [(item["status"], item["output"]) for item in rest] == [("incomplete", None)]
    assert len(rig.gateway.upstream.requests) == 1


async def test_a_call_at_the_limit_is_run_if_it_is_whole(rig: Rig, stream: bool):
    rig.model.script([Say("I look."), mcp_call("echo", "a")])
    rig.model.ending = "limited"
    turn = await rig.turn(stream, tools=[rig.server()])
    assert turn.response["incomplete_details"] == {"reason": "max_output_tokens"}
    (item,) = turn.of("mcp_call")
    assert (item["status"], item["output"]) == ("completed", "a")


async def test_a_later_round_that_is_refused_keeps_what_was_done(rig: Rig, stream: bool):
    rig.model.script([search("a"), mcp_call("echo", "b")])
    rig.gateway.upstream.play(b"{}", status="500 Internal Server Error")
    turn = await rig.turn(stream, tools=[SEARCH, rig.server()], parallel_tool_calls=True)
    assert turn.response["status"] == "failed"
    assert turn.kinds == ["mcp_list_tools", "web_search_call", "mcp_call"]
    assert [item["status"] for item in turn.output[1:]] == ["completed", "completed"]
    assert turn.of("mcp_call")[0]["output"] == "b"


async def test_a_first_round_that_is_refused_is_an_http_error_where_nothing_was_sent(
    rig: Rig, stream: bool
):
    """A stream that has told of a list has begun."""
    rig.gateway.upstream.play(b'{"error":{"message":"no"}}', status="400 Bad Request")
    reply = await rig.gateway.create(stream=stream, tools=[SEARCH])
    assert (reply.status, reply.error["message"]) == (400, "no")
    if stream:
        turn = await rig.turn(stream, tools=[rig.server()])
        assert turn.response["status"] == "failed"
        assert turn.kinds == ["mcp_list_tools"]
    else:
        reply = await rig.gateway.create(tools=[rig.server()])
        assert (reply.status, reply.error["message"]) == (400, "no")


async def test_calls_outside_of_the_allowed_tools_are_not_run(rig: Rig, stream: bool):
    """The model calls one all the same: it is told, or the call is as if it had not been made."""
    rig.model.script(ANSWER)
    await rig.turn(stream, tools=[SEARCH, rig.server()])
    hidden = rig.model.asked().name_of("echo", "s")
    (made, _) = rig.model.script([search("x"), search("b")], ANSWER)
    rig.model.renamed = {made.ident: hidden}
    choice = {"type": "allowed_tools", "tools": [SEARCH]}
    turn = await rig.turn(
        stream, tools=[SEARCH, rig.server()], tool_choice=choice, parallel_tool_calls=True
    )
    assert rig.mcp.calls == []
    assert [item["action"]["query"] for item in turn.of("web_search_call")] == ["b"]
    assert turn.of("mcp_call") == []
    assert turn.of("function_call") == []
    assert turn.text == "Done."


async def test_no_choice_leaves_the_tools_alone(rig: Rig, stream: bool):
    rig.model.script(ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH, rig.server(), FUNCTION], tool_choice="none")
    assert rig.model.asked().body["tool_choice"] == "none"
    assert turn.response["tool_choice"] == "none"
    assert turn.text == "Done."


async def test_two_calls_of_one_id_are_two_calls(rig: Rig, stream: bool):
    """Results are told apart although the model did not tell its calls apart."""
    calls = rig.model.script([mcp_call("echo", "a"), mcp_call("echo", "b")], ANSWER)
    calls[1].ident = calls[0].ident
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    assert [item["output"] for item in turn.of("mcp_call")] == ["a", "b"]
    assert list(rig.model.asked().results.values()) == ["a", "b"]


async def test_a_chat_server_gets_back_what_it_thought(equip: Equip, stream: bool):
    """Where it takes such a field: models that think between calls need it."""
    async with equip("chat", reasoning_history="reasoning_content") as rig:
        rig.model.script([Think("Hm."), search("a")], ANSWER)
        turn = await rig.turn(stream, tools=[SEARCH])
        assert turn.kinds == ["reasoning", "web_search_call", "message"]
        assistant = rig.model.asked().body["messages"][1]
        assert assistant["reasoning_content"] == "Hm."
        assert len(assistant["tool_calls"]) == 1


async def test_usage_is_that_of_all_rounds(rig: Rig, stream: bool):
    rig.model.script([search("a")], [mcp_call("echo", "b")], ANSWER)
    turn = await rig.turn(stream, tools=[SEARCH, rig.server()])
    usage = turn.response["usage"]
    counted = (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"])
    assert counted == (9, 6, 15)


async def test_a_background_response_runs_its_tools_watched_or_not(rig: Rig):
    rig.model.script([search("a"), mcp_call("echo", "b")], ANSWER)
    options = {"tools": [SEARCH, rig.server()], "parallel_tool_calls": True, "background": True}
    made = await rig.gateway.made(**options)
    assert made["status"] == "queued"
    done = await rig.gateway.until(made["id"], "completed")
    rig.model.script([search("a"), mcp_call("echo", "b")], ANSWER)
    watched = await rig.turn(True, **options)
    assert [event["type"].removeprefix("response.") for event in watched.events[:5]] == [
        *("created", "queued", "in_progress", "output_item.added", "mcp_list_tools.in_progress")
    ]
    kinds = ["mcp_list_tools", "web_search_call", "mcp_call", "message"]
    assert [item["type"] for item in done["output"]] == watched.kinds == kinds


async def test_results_go_up_as_they_are(rig: Rig, stream: bool):
    texts = ['\u2028 \x85 \U0001f600 "quoted"', " ", "\ttabs and\nlines\n"]
    rig.model.script([mcp_call("echo", text) for text in texts], ANSWER)
    turn = await rig.turn(stream, tools=[rig.server()], parallel_tool_calls=True)
    made = turn.of("mcp_call")
    assert [item["output"] for item in made] == texts
    assert [json.loads(item["arguments"]) for item in made] == [{"text": text} for text in texts]
    assert list(rig.model.asked().results.values()) == texts

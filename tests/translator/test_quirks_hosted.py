"""Calls that the upstream runs by itself are shown as it tells them (upstream-quirks.md section 3, contract.md section 8).

One test a symptom.
"""

import json
from typing import Any

import pytest

from tests.translator.drive import (
    FUNCTION,
    added,
    call,
    completed,
    done,
    ev,
    play,
    text,
)

HOSTED = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "t"}


def hosted(kind: str, **fields: Any) -> dict[str, Any]:
    return ev(f"mcp_call_arguments.{kind}", item_id="mcp_1", output_index=0, **fields)


def test_an_item_that_the_upstream_runs_itself_is_shown_as_it_is() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_up",
        "status": "in_progress",
        "action": {"type": "search"},
    }
    place = {"item_id": "ws_up", "output_index": 0}
    told = play(
        added(search), ev("web_search_call.in_progress", **place), ev("web_search_call.searching", **place),
        ev("web_search_call.extension", **place), ev("web_search_call.completed", **place),
        done({**search, "status": "completed", "action": {"type": "search", "query": "q"}}), completed(),
    )  # fmt: skip
    assert told.item_types() == [
        "output_item.added", "web_search_call.in_progress", "web_search_call.searching",
        "web_search_call.completed", "output_item.done",
    ]  # fmt: skip
    assert told.output[0]["action"] == {"type": "search", "query": "q"}
    assert b"ws_up" not in b"".join(told.frames)


def test_an_item_of_an_unknown_type_is_shown_added_and_done() -> None:
    told = play(
        added({"type": "program", "id": "p", "call_id": "c"}),
        done({"type": "program", "id": "p", "call_id": "d", "code": "x"}),
        completed(),
    )
    assert told.item_types() == ["output_item.added", "output_item.done"]
    assert told.output[0]["call_id"] == "c"


def test_a_hosted_item_that_was_cut_is_incomplete_and_a_failed_one_stays_failed() -> None:
    search = {"type": "web_search_call", "id": "w", "status": "in_progress"}
    assert play(added(search)).output[0]["status"] == "incomplete"
    assert play(done({**search, "status": "failed"}), completed()).output[0]["status"] == "failed"


@pytest.mark.parametrize(
    "field",
    [
        '"delta":"\\ud800"',
        '"delta":' + "[" * 230 + "]" * 230,
        '"delta":"\\ud800","code":99999999999999999999999',
    ],
)
def test_what_a_hosted_event_brings_can_be_written_again_or_fails_the_response(field: str) -> None:
    item = {"type": "code_interpreter_call", "id": "ci", "status": "in_progress", "code": ""}
    raw = '{"type":"response.code_interpreter_call_code.delta","item_id":"ci","output_index":0,@}'.replace(
        "@", field
    )
    told = play(added(item), raw, completed())
    assert told.response["status"] in ("completed", "failed")


def test_a_hosted_event_says_no_more_than_its_kind_does() -> None:
    search = {"type": "web_search_call", "id": "w", "status": "in_progress"}
    odd = ev(
        "web_search_call.searching",
        item_id="w",
        output_index=0,
        error={"x": 1},
        response_id="resp_up",
    )
    told = play(added(search), odd, completed())
    assert set(told.of("web_search_call.searching")[0]) == {
        "type",
        "sequence_number",
        "item_id",
        "output_index",
    }


@pytest.mark.parametrize("begun", ["", '{"a":1}'])
@pytest.mark.parametrize("pieces", [(), ('{"a"', ":1}"), ('{"a"',)])
@pytest.mark.parametrize("told", [True, False])
def test_arguments_of_a_call_that_the_upstream_runs_are_streamed_and_ended_once(
    begun: str, pieces: tuple[str, ...], told: bool
) -> None:
    whole = '{"a":1}'
    play_out = play(
        added({**HOSTED, "arguments": begun, "status": "in_progress"}),
        *(hosted("delta", delta=piece) for piece in pieces),
        *([hosted("done", arguments=whole)] * 2 if told else ()),
        done({**HOSTED, "arguments": whole, "output": "x", "status": "completed"}),
        completed(),
    )
    assert play_out.of("output_item.added")[0]["item"]["arguments"] == ""
    assert "".join(play_out.deltas("mcp_call_arguments")) == whole
    assert [e["arguments"] for e in play_out.of("mcp_call_arguments.done")] == [whole]
    assert play_out.output[0]["arguments"] == whole


def test_a_call_that_the_upstream_runs_and_does_not_end_has_what_was_streamed() -> None:
    told = play(
        added({**HOSTED, "arguments": "", "status": "in_progress"}),
        hosted("delta", delta='{"a"'),
        hosted("delta", delta=5),
        ev("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}}),
    )
    (item,) = told.output
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a"')


def test_a_whole_that_is_not_what_was_streamed_takes_nothing_back() -> None:
    told = play(
        added({**HOSTED, "arguments": "", "status": "in_progress"}),
        hosted("delta", delta='{"a"'),
        done({**HOSTED, "arguments": "{}", "status": "completed"}),
        completed(),
    )
    assert (
        told.of("mcp_call_arguments.done")[0]["arguments"] == told.output[0]["arguments"] == '{"a"'
    )


def test_code_that_the_upstream_runs_is_streamed_likewise() -> None:
    code = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "c", "outputs": None}
    told = play(
        added({**code, "code": None, "status": "in_progress"}),
        done({**code, "code": "print(1)", "status": "completed"}),
        completed(),
    )
    assert told.deltas("code_interpreter_call_code") == ["print(1)"]
    assert (
        told.of("code_interpreter_call_code.done")[0]["code"]
        == told.output[0]["code"]
        == "print(1)"
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        *((doing, "completed") for doing in ("searching", "in_progress", "", None, "done")),
        *((end, end) for end in ("completed", "failed")),
    ],
)
def test_what_a_hosted_item_was_doing_is_no_end_of_it(said: str | None, shown: str) -> None:
    search = {"type": "web_search_call", "id": "w", "action": {"type": "search"}}
    told = play(done({**search, "status": said}), completed())
    assert told.of("output_item.added")[0]["item"]["status"] == "in_progress"
    assert told.output[0]["status"] == shown


MCP = "output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done {} output_item.done"
WHOLE = [
    (
        {"type": "web_search_call", "action": {"type": "search", "query": "q"}},
        "output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed "
        "output_item.done",
    ),
    (
        {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
        "output_item.added code_interpreter_call.in_progress code_interpreter_call_code.delta "
        "code_interpreter_call_code.done code_interpreter_call.interpreting code_interpreter_call.completed "
        "output_item.done",
    ),
    ({**HOSTED, "arguments": "{}", "output": "x"}, MCP.format("mcp_call.completed")),
    (
        {**HOSTED, "arguments": "{}", "status": "failed", "error": {"type": "http_error"}},
        MCP.format("mcp_call.failed"),
    ),
    (
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "t"}]},
        "output_item.added mcp_list_tools.in_progress mcp_list_tools.completed output_item.done",
    ),
    ({"type": "shell_call", "call_id": "c"}, "output_item.added output_item.done"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "life"), WHOLE, ids=lambda one: one.get("type", "") if isinstance(one, dict) else ""
)
def test_an_item_that_the_upstream_ran_and_only_ends_gets_its_whole_life(
    item: dict[str, Any], life: str
) -> None:
    whole = {"status": "completed", **item, "id": "up"}
    body = json.dumps({"object": "response", "status": "completed", "output": [whole]})
    for told in (play(done(whole), completed()), play(body.encode())):
        assert told.item_types() == life.split()
        shown = told.of("output_item.added")[0]["item"]
        assert (shown.get("tools"), shown.get("output"), shown.get("outputs")) in (
            (None, None, None),
            ([], None, None),
        )
        assert {**told.output[0], "id": "up"} == whole


def test_steps_that_the_upstream_leaves_out_are_told_at_the_end_and_none_is_told_late() -> None:
    search = {"type": "web_search_call", "id": "w", "status": "in_progress"}
    place = {"item_id": "w", "output_index": 0}
    told = play(
        added(search), ev("web_search_call.searching", **place), done({**search, "status": "completed"}), completed(),
    )  # fmt: skip
    assert told.item_types()[1:-1] == ["web_search_call.searching", "web_search_call.completed"]
    assert play(added(search), end="reset").item_types() == [
        "output_item.added",
        "output_item.done",
    ]


def test_arguments_that_only_the_end_tells_end_before_the_call_does() -> None:
    told = play(
        added({**HOSTED, "arguments": ""}), ev("mcp_call.failed", item_id="mcp_1", output_index=0),
        done({**HOSTED, "arguments": "{}", "status": "failed"}), completed(),
    )  # fmt: skip
    assert told.item_types() == MCP.format("mcp_call.failed").split()


@pytest.mark.parametrize("name", [None, "", "absent"])
def test_an_mcp_call_that_its_end_names_is_announced_under_that_name(name: str | None) -> None:
    nameless = {k: v for k, v in HOSTED.items() if k != "name"}
    begun = {**nameless, "arguments": "", **({} if name == "absent" else {"name": name})}
    told = play(
        added({**begun, "server_label": None}), hosted("delta", delta="{}"), text("later", 1),
        done({**HOSTED, "arguments": "{}", "status": "completed"}), completed(),
    )  # fmt: skip
    first = told.of("output_item.added")[0]["item"]
    assert (first["name"], first["server_label"]) == (HOSTED["name"], HOSTED["server_label"])
    assert [item["type"] for item in told.output] == ["mcp_call", "message"]
    assert play(added(begun), completed()).response["status"] == "completed"


@pytest.mark.parametrize("told_id", ["c", 7], ids=["text", "number"])
def test_call_ids_of_what_the_upstream_runs_come_once_and_an_output_has_its_calls(
    told_id: Any,
) -> None:
    shell = {"type": "shell_call", "call_id": told_id, "status": "completed"}
    output = {"type": "shell_call_output", "call_id": told_id, "output": []}
    told = play(
        done({**shell, "id": "a"}, 0), done({**output, "id": "b"}, 1),
        done({**shell, "id": "d"}, 2), done({**output, "id": "e"}, 3),
        done(call("get_weather", "{}", call_id=told_id), 4), completed(), tools=[FUNCTION],
    )  # fmt: skip
    first, answer, second, other, mine = (item["call_id"] for item in told.output)
    assert first == answer == str(told_id)
    assert second == other
    assert len({first, second, mine}) == 3


def test_a_call_that_failed_before_its_arguments_ended_has_failed() -> None:
    place = {"item_id": "mcp_1", "output_index": 0}
    ended = {**HOSTED, "arguments": "{}", "error": "boom", "status": "completed"}
    told = play(
        added({**HOSTED, "arguments": ""}), ev("mcp_call.in_progress", **place),
        ev("mcp_call.failed", **place), done(ended), completed(),
    )  # fmt: skip
    assert told.item_types() == MCP.format("mcp_call.failed").split()
    assert play(done(ended), completed()).item_types() == told.item_types()


def test_arguments_come_behind_the_start_although_the_upstream_tells_that_late() -> None:
    place = {"item_id": "mcp_1", "output_index": 0}
    told = play(
        added({**HOSTED, "arguments": ""}), hosted("delta", delta="{}"), ev("mcp_call.in_progress", **place),
        hosted("done", arguments="{}"), done({**HOSTED, "arguments": "{}"}), completed(),
    )  # fmt: skip
    assert told.item_types() == MCP.format("mcp_call.completed").split()


def test_pictures_in_the_making_say_how_far_the_item_is() -> None:
    image = {"type": "image_generation_call", "id": "i", "status": "generating", "result": None}
    place = {"item_id": "i", "output_index": 0}
    part = ev(
        "image_generation_call.partial_image",
        **place,
        partial_image_index=0,
        partial_image_b64="QQ==",
    )
    told = play(added(image), part, part, done({**image, "result": "QQ=="}), completed())
    shown = [kind.rpartition(".")[2] for kind in told.item_types()]
    assert shown == ["added", "partial_image", "partial_image", "completed", "done"]


def test_a_list_of_tools_says_no_nulls() -> None:
    tool = {"name": "t", "input_schema": {}, "description": None, "annotations": None}
    listed = {"type": "mcp_list_tools", "server_label": "s", "tools": [tool, "odd"], "error": None}
    told = play(added({**listed, "tools": None}), done(listed), completed())
    (item,) = told.output
    assert "error" not in item
    assert item["tools"] == [{"name": "t", "input_schema": {}}, "odd"]
    assert told.of("output_item.added")[0]["item"]["tools"] == []
    for odd in (1, True, "t", {"a": 1}):
        assert play(done({**listed, "tools": odd}), completed()).output[0]["tools"] == []

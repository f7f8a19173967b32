"""The Response object has all 31 keys and shows what the client sent."""

import json

import openresponses_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.bodies import JSON, RID, additional, custom, function, request
from translator.protocol.json import loads
from translator.protocol.response import add_usage, template, usage
from translator.protocol.upstream import Upstream
from translator.request_entry import request_entry

UPSTREAM = Upstream("default", "http://upstream.test/v1", "responses")


def shown(**fields):
    entry = request_entry(RID, "me", request(**fields), [], upstream=UPSTREAM, limits={})
    return template(loads(entry), 1_700_000_000)


def test_a_silent_request_shows_the_defaults():
    assert shown() == {
        "id": RID,
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": None,
        "model": "tiny",
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        "instructions": None,
        "previous_response_id": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "safety_identifier": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "temperature": 1,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "top_logprobs": 0,
        "truncation": "disabled",
        "service_tier": "default",
        "store": True,
        "background": False,
        "metadata": {},
    }
    assert len(shown()) == 31


def test_null_shows_the_default_too():
    silent = dict.fromkeys(set(shown()) & {"tools", "text", "reasoning", "metadata", "store"})
    assert shown(**silent, tool_choice=None, temperature=None, user=None) == shown()


def test_falsy_values_are_values():
    sent = {
        "temperature": 0,
        "top_p": 0,
        "parallel_tool_calls": False,
        "store": False,
        "instructions": "",
        "prompt_cache_key": "",
        "user": "",
    }
    assert sent.items() <= shown(**sent).items()


def test_what_was_sent_is_shown():
    sent = {
        "previous_response_id": "resp_x",
        "max_output_tokens": 16,
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "service_tier": "flex",
        "tool_choice": {"type": "custom", "name": "exec"},
        "tools": [custom("exec", description="Runs")],
        "prompt_cache_retention": "24h",
    }
    assert sent.items() <= shown(**sent).items()
    assert shown(background=True)["status"] == "queued"


def test_what_was_asked_for_is_not_shown_as_if_it_had_been_done():
    assert "moderation" not in shown(moderation={"model": "omni-moderation-latest"})


def test_objects_are_completed():
    given = shown(
        reasoning={"effort": "low"},
        text={"format": {"type": "json_schema", "name": "a", "schema": {}}, "verbosity": "low"},
        tools=[function("get")],
    )
    assert given["reasoning"] == {"effort": "low", "summary": None}
    assert given["text"] == {
        "verbosity": "low",
        "format": {
            "type": "json_schema",
            "name": "a",
            "schema": {},
            "description": None,
            "strict": False,
        },
    }
    assert given["tools"] == [function("get", description=None, strict=None)]
    assert shown(text={"verbosity": "high"})["text"]["format"] == {"type": "text"}


def test_only_the_requests_own_tools_are_shown():
    assert shown(input=[additional(custom("exec"))])["tools"] == []


def test_parallel_calls_are_off_with_a_tool_that_the_gateway_runs_unless_asked_for():
    search = {"type": "web_search"}
    assert shown(tools=[search])["parallel_tool_calls"] is False
    assert shown(input=[additional(search)])["parallel_tool_calls"] is False
    assert shown(tools=[search], parallel_tool_calls=True)["parallel_tool_calls"] is True


def test_secrets_are_not_shown():
    server = {
        "type": "mcp",
        "server_label": "a",
        "authorization": "s3cret",
        "headers": {"k": "s3cret"},
    }
    assert "s3cret" not in json.dumps(shown(tools=[server], input=[additional(server)]))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"background": True},
        {"tools": [function("get")], "tool_choice": {"type": "function", "name": "get"}},
        {
            "tools": [function("get")],
            "tool_choice": {
                "type": "allowed_tools",
                "tools": [{"type": "function", "name": "get"}],
            },
        },
        {"metadata": {"a": "b"}, "reasoning": {"effort": "high"}, "instructions": "Be brief."},
        {"text": {"format": {"type": "json_object"}}, "service_tier": "auto", "temperature": 0.5},
    ],
)
def test_the_schema_of_open_responses_takes_it(fields):
    openresponses_types.ResponseResource.model_validate(shown(**fields))


FULL = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}


@pytest.mark.parametrize(
    "reported", [None, [], {}, "5", {"input_tokens": None}, {"total_tokens": True, "x": 5}]
)
def test_no_usage_is_null(reported):
    assert usage(reported) is None


def test_usage_is_shown_in_one_form():
    vllm = {**FULL, "output_tokens_details": {"reasoning_tokens": 2, "tool_output_tokens": 0}}
    assert usage({**vllm, "input_tokens_details": {"cached_tokens": 4}}) == FULL
    assert usage(FULL) == FULL
    bare = usage({"input_tokens": 10, "output_tokens": 5, "input_tokens_details": None})
    assert bare["total_tokens"] == 15
    assert bare["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    odd = usage({"input_tokens": -1, "output_tokens": 2.5, "total_tokens": 7})
    assert (odd["input_tokens"], odd["output_tokens"], odd["total_tokens"]) == (0, 0, 7)


def test_usage_in_chats_words_is_the_same_usage():
    chat = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    details = {
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    told = usage({**chat, **details})
    assert told["input_tokens_details"]["cached_tokens"] == 4
    assert told["output_tokens_details"] == {"reasoning_tokens": 2}
    assert (told["input_tokens"], told["output_tokens"], told["total_tokens"]) == (10, 5, 15)
    assert (
        usage({**chat, "prompt_cache_hit_tokens": 3})["input_tokens_details"]["cached_tokens"] == 3
    )
    beside = usage(
        {**chat, "cached_tokens": 3, "reasoning_tokens": 2, "prompt_tokens_details": None}
    )
    assert beside["input_tokens_details"]["cached_tokens"] == 3
    assert beside["output_tokens_details"] == {"reasoning_tokens": 2}


def test_usage_is_summed_over_rounds():
    assert add_usage(None, None) is None
    assert add_usage(FULL, None) == add_usage(None, FULL) == FULL
    assert add_usage(FULL, FULL) == {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 30,
    }


@given(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(FULL, JSON)))
def test_any_report_gives_a_usage_that_the_schema_takes_or_none(reported):
    if (found := usage(reported)) is not None:
        openresponses_types.Usage.model_validate(found)

"""Results of workers are read with care: whatever a stranger's server said, the fold goes on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.tool_results import LIST, Key, key_of, listing_of, result_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = ("key", "ok", "content", "output", "error", "sources", "results", "images", "tools")


def test_keys_name_a_call_or_a_list():
    assert key_of("3.14") == Key(3, 14)
    assert key_of("list.2") == Key(LIST, 2)


@pytest.mark.parametrize(
    "odd", [None, 7, "", "3", "3.", ".3", "a.1", "1.a", "list.x", "1.2.3", "-1.2"]
)
def test_what_is_no_key_is_nobodys(odd):
    assert key_of(odd) is None


def test_a_result_is_whole_whatever_is_missing():
    key, result = result_of(b'{"key": "1.0", "ok": true, "content": "c", "images": ["data:x", 3]}')
    assert key == Key(1, 0)
    assert result == {
        "ok": True,
        "content": "c",
        "output": "c",
        "error": None,
        "sources": [],
        "results": [],
        "images": ["data:x"],
    }


def test_a_tool_without_a_name_is_none_and_one_without_a_schema_takes_an_object():
    _, listing = listing_of(
        b'{"key": "list.0", "tools": [{"name": "a"}, {"name": 7}, {}, 3], "error": ""}'
    )
    tool = {"name": "a", "input_schema": {"type": "object"}}
    assert listing == {"tools": [tool], "error": None}


@given(st.dictionaries(st.sampled_from(FIELDS), JSON) | JSON)
def test_any_json_is_a_result_and_a_list(said):
    data = json.dumps(said).encode()
    _, result = result_of(data)
    assert isinstance(result["content"], str)
    assert all(isinstance(url, str) for url in result["sources"])
    assert (result["error"] is None) is result["ok"]
    assert (result["output"] is None) is not result["ok"]
    _, listing = listing_of(data)
    assert all(tool["name"] and isinstance(tool["input_schema"], dict) for tool in listing["tools"])


def test_what_is_no_json_is_an_empty_failure():
    assert result_of(b"{") == (None, result_of(b"{}")[1])
    assert result_of(b"{}")[1]["ok"] is False

"""What may be shown of a tool, and what never leaves the process."""

from translator.protocol.tools import is_gateway_type, shown, shown_choice, without_secrets


def test_functions_are_shown_with_all_five_keys():
    tool = {"type": "function", "name": "get", "strict": False, "encrypted": True}
    assert shown(tool) == {
        "type": "function",
        "name": "get",
        "strict": False,
        "encrypted": True,
        "description": None,
        "parameters": None,
    }


def test_other_tools_are_shown_as_they_were_sent():
    tool = {"type": "custom", "name": "exec", "description": "Runs"}
    assert shown(tool) == tool


def test_secrets_of_a_server_are_left_out():
    tool = {"type": "mcp", "server_label": "a", "authorization": "s", "headers": {"k": "s"}}
    assert shown(tool) == without_secrets(tool) == {"type": "mcp", "server_label": "a"}
    assert "authorization" in tool


def test_a_function_may_have_a_parameter_of_any_name_but_no_secret_key_of_its_own():
    tool = {"type": "function", "name": "f", "parameters": {"properties": {"headers": {}}}}
    assert shown(tool)["parameters"] == tool["parameters"]


def test_the_gateway_runs_web_search_by_any_name_and_mcp():
    assert all(map(is_gateway_type, ["mcp", "web_search", "web_search_preview_2025_03_11"]))
    others = ["function", "custom", "file_search", "mcp_call", "web_searching", "web_search_"]
    assert not any(map(is_gateway_type, others))


def test_a_choice_is_shown_as_it_was_sent_with_the_mode_that_holds():
    allowed = {"type": "allowed_tools", "tools": [{"type": "custom", "name": "a"}]}
    assert shown_choice("none") == "none"
    assert shown_choice({"type": "custom", "name": "a"}) == {"type": "custom", "name": "a"}
    assert shown_choice(allowed) == {**allowed, "mode": "auto"}
    assert shown_choice({**allowed, "mode": "required"})["mode"] == "required"

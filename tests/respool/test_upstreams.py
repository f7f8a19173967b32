"""Upstreams: what they speak, which one serves a model, and edits while the process runs."""

import logging
import os

import pytest

from respool.settings import SettingsError, load
from respool.upstreams import Upstreams, api_of, upstreams_of


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(name, *lines):
    return "\n".join(
        ["[[upstreams]]", f"id = '{name}'", f"base_url = 'http://{name}:1/v1/'", *lines, ""]
    )


@pytest.mark.parametrize(
    ("upstream_id", "stored", "api"),
    [
        ("x", "chat", "chat"),
        ("x", "responses", "responses"),
        ("openai-compatible-chat-7", "responses", "responses"),
        ("openai-compatible-responses-7", "chat", "chat"),
        ("openai-compatible-chat-7", None, "chat"),
        ("openai-compatible-chat-7", "soap", "chat"),
        ("openai-compatible-responses-7", 3, "responses"),
        ("x", None, "responses"),
        ("x", "soap", None),
        ("my-openai-compatible-chat-7", "soap", None),
    ],
)
def test_what_is_stored_decides_and_the_id_only_where_that_says_nothing(upstream_id, stored, api):
    assert api_of(upstream_id, stored) == api


def test_an_api_that_nothing_explains_is_a_fault(folder):
    (folder / "respool.toml").write_text(table("x", "api = 'soap'"))
    with pytest.raises(SettingsError, match=r"^respool.toml: upstreams 'x': api must be"):
        upstreams_of(load())


def test_the_keys_come_from_the_environment(folder, monkeypatch):
    (folder / "respool.toml").write_text(table("x", "api_key_env = 'THE_KEY'"))
    with pytest.raises(SettingsError, match="no environment variable 'THE_KEY'"):
        upstreams_of(load())
    monkeypatch.setenv("THE_KEY", "sesame")
    (upstream,) = upstreams_of(load())
    assert upstream.api_key == "sesame"
    assert "sesame" not in repr(upstream)


def test_the_first_whose_globs_fit_serves_the_model_and_the_single_one_the_rest(
    folder, monkeypatch
):
    (folder / "respool.toml").write_text(
        table("a", "models = ['qwen*']") + table("b", "models = ['qwen3', 'gpt-?']")
    )
    upstreams = Upstreams(load())
    assert upstreams.resolve("qwen3").id == "a"
    assert upstreams.resolve("gpt-5").id == "b"
    assert upstreams.resolve("other") is None
    monkeypatch.setenv("RESPOOL_UPSTREAM_URL", "http://rest/v1")
    monkeypatch.setenv("RESPOOL_UPSTREAM_API_KEY", "k")
    upstreams = Upstreams(load())
    assert upstreams.resolve("other").id == "default"
    assert upstreams.get("default").api_key == "k"
    assert upstreams.get("b").base_url == "http://b:1/v1"
    assert upstreams.get("c") is None


def test_the_single_upstream_has_an_id_of_its_own(folder, monkeypatch):
    (folder / "respool.toml").write_text(table("default"))
    monkeypatch.setenv("RESPOOL_UPSTREAM_URL", "http://rest/v1")
    with pytest.raises(SettingsError, match="'default' stands for RESPOOL_UPSTREAM_URL"):
        upstreams_of(load())


@pytest.mark.parametrize(
    ("api", "everywhere", "own", "expected"),
    [
        ("responses", None, None, "reject"),
        ("chat", None, None, "validate"),
        ("responses", "validate", None, "validate"),
        ("chat", "reject", None, "reject"),
        ("chat", "reject", "validate", "validate"),
    ],
)
def test_grammars_are_treated_as_the_upstream_then_the_settings_then_the_dialect_say(
    folder, api, everywhere, own, expected
):
    lines = [f"api = '{api}'"] + ([f"custom_formats = '{own}'"] if own else [])
    (folder / "respool.toml").write_text(table("x", *lines))
    (upstream,) = upstreams_of(load(custom_formats=everywhere))
    assert upstream.custom_formats == expected


def test_an_edit_takes_effect_for_the_next_request(folder):
    file = folder / "respool.toml"
    upstreams = Upstreams(load(upstream_url="http://one/v1"))
    assert upstreams.resolve("m").base_url == "http://one/v1"
    file.write_text(table("two"))
    assert upstreams.resolve("m").id == "two"
    file.write_text(table("three"))
    os.utime(file, ns=(1, 1))
    assert upstreams.resolve("m").id == "three"


@pytest.mark.parametrize("gone", [True, False])
def test_a_file_that_is_emptied_or_gone_takes_no_upstream_away(folder, caplog, gone):
    file = folder / "respool.toml"
    file.write_text(table("one"))
    upstreams = Upstreams(load())
    if gone:
        file.unlink()
    else:
        file.write_text("")
    assert upstreams.resolve("m").id == "one"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the old upstreams stay" in caplog.text
    file.write_text(table("two"))
    assert upstreams.resolve("m").id == "two"


def test_an_edit_that_cannot_be_used_is_told_once_and_changes_nothing(folder, caplog):
    file = folder / "respool.toml"
    file.write_text(table("one"))
    upstreams = Upstreams(load())
    file.write_text("[[upstreams]\n")
    with caplog.at_level(logging.INFO):
        assert upstreams.resolve("m").id == "one"
        assert upstreams.resolve("m").id == "one"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the old upstreams stay" in caplog.text
    file.write_text(table("two"))
    assert upstreams.resolve("m").id == "two"


def test_a_key_of_a_table_that_no_header_can_hold_is_told_by_its_variable(folder, monkeypatch):
    monkeypatch.setenv("QWEN_KEY", "opensesame\n")
    (folder / "respool.toml").write_text(
        "[[upstreams]]\nid = 'a'\nbase_url = 'http://h/v1'\napi_key_env = 'QWEN_KEY'\n"
    )
    with pytest.raises(SettingsError, match=r"^QWEN_KEY: holds a blank") as caught:
        upstreams_of(load())
    assert "opensesame" not in str(caught.value)

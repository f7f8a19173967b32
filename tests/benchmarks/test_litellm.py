import json

from benchmarks.litellm import configuration, version


def test_each_model_goes_to_the_upstream_once_in_its_own_dialect():
    made = json.loads(
        configuration("http://127.0.0.1:1/v1", ["chat:1:0", "responses:1:0", "chat:1:0"])
    )
    chat, responses = made["model_list"]
    assert chat["litellm_params"]["use_chat_completions_api"] is True
    assert responses["litellm_params"]["use_chat_completions_api"] is False
    assert {one["litellm_params"]["api_base"] for one in (chat, responses)} == {
        "http://127.0.0.1:1/v1"
    }


def test_no_version_where_it_is_not_installed(tmp_path):
    assert version(tmp_path) == ""
    (tmp_path / "lib/python3/site-packages/litellm-1.2.3.dist-info").mkdir(parents=True)
    assert version(tmp_path) == "1.2.3"

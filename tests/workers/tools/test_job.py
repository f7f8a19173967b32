import json

import pytest

from workers.tools.job import (
    Failed,
    Job,
    Listing,
    Outcome,
    arguments_of,
    list_data,
    result_data,
)


def a_job(key="1.0", **changes) -> Job:
    return Job.of(job_data(key, **changes))


def job_data(key="1.0", **changes) -> bytes:
    given = {
        "key": key,
        "kind": "call",
        "tool": "mcp",
        "server": None,
        "name": "",
        "arguments": "",
        "idempotent": False,
        "options": {},
    }
    return json.dumps(given | changes).encode()


def test_a_job_is_what_its_data_says():
    job = a_job("1.2", tool="web_search", idempotent=True, options={"a": 1}, arguments="{}")
    assert (job.key, job.tool, job.again, job.options) == ("1.2", "web_search", True, {"a": 1})
    assert not a_job().again
    assert a_job(kind="list").again
    assert Job.of(b'{"key":"1.0","kind":"call","tool":"mcp"}') == a_job()


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_nothing_at_all_means_no_arguments(text):
    assert arguments_of(text) == {}


@pytest.mark.parametrize(
    "text", ["[]", '"a"', "5", "null", "{", '{"a":', "nope", "\ud800", "[" * 999]
)
def test_arguments_that_are_no_object_are_a_failure(text):
    with pytest.raises(Failed, match="not a JSON object") as failed:
        arguments_of(text)
    assert failed.value.error["code"] == -32602


def test_the_entry_of_a_result_has_all_that_the_fold_asks_for():
    failure = Failed.http(502, "no way")
    data = json.loads(result_data("1.0", Outcome.of(failure), started=5, ended=9))
    assert data == {
        "key": "1.0",
        "ok": False,
        "content": '{"error":"no way"}',
        "output": None,
        "error": {"type": "http_error", "code": 502, "message": "no way"},
        "sources": [],
        "started": 5,
        "ended": 9,
    }
    good = Outcome(True, "c", "c", images=["data:"], results=[{"url": "u"}])
    assert {"images", "results"} < set(json.loads(result_data("1.0", good, started=0, ended=0)))
    assert json.loads(list_data("list.0", Listing([], "e"))) == {
        "key": "list.0",
        "tools": [],
        "error": "e",
    }


@pytest.mark.parametrize(
    "number", [2**63, 2**64, -(2**64), 123456789012345678901234567890, 10**300 + 7]
)
def test_integers_past_64_bits_are_as_the_model_wrote_them(number):
    given = arguments_of(f'{{"k": {number}, "in": [{{"n": {number}}}], "s": "\\ud800", "f": 1.5}}')
    assert given == {"k": number, "in": [{"n": number}], "s": "\ufffd", "f": 1.5}
    assert type(given["k"]) is int


@pytest.mark.parametrize("number", ["NaN", "1" * 400, "1" * 5000, "1e999"])
def test_numbers_that_no_parser_holds_are_a_failure(number):
    with pytest.raises(Failed, match="not a JSON object"):
        arguments_of(f'{{"k": {number}, "long": 12345678901234567890}}')

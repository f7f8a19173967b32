"""The log's lines: one an event, no secret in them, and nothing that a client or a model said."""

import ast
import json
import logging
import sys
from pathlib import Path

import pytest

from respool.log import FIELDS, JsonLine, OneLine, configure
from streams.faults import StoreAway


def record_of(message, *args, error=None, name="ingest.run", **fields):
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord(name, logging.INFO, __file__, 1, message, args, info)
    record.created, record.msecs = 0.25, 250.0
    record.__dict__.update(fields)
    return record


def line(message, *args, secrets=(), debug=False, **about):
    return OneLine(secrets, debug=debug).format(record_of(message, *args, **about))


def jsonl(message, *args, secrets=(), debug=False, **about):
    form = JsonLine(secrets, debug=debug, roles={"translate", "ingest"})
    text = form.format(record_of(message, *args, **about))
    assert text.count("\n") == 0
    return json.loads(text)


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_line_says_when_how_bad_where_and_what():
    assert line("took %d", 3) == "1970-01-01T00:00:00.250Z INFO ingest.run: took 3"


def test_what_a_client_sent_cannot_start_a_line_of_its_own():
    assert line("model %s", "a\n2026 ERROR x").count("\n") == 0


def test_an_exception_stays_in_its_line_and_says_where_it_was_raised():
    text = line("lost", error=raised(KeyError("b\nc")), debug=True)
    assert "| KeyError: 'b\\nc' (in raised, " in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("my name is Ada"), "ValueError"),
        (StoreAway("it did not answer"), "StoreAway: it did not answer"),
        (ConnectionResetError(104, "Connection reset by peer"), "ConnectionResetError: Connection"),
        (OSError("my name is Ada"), "OSError"),
    ],
)
def test_only_debug_shows_what_an_exception_of_others_says(error, shown):
    text = line("lost", error=raised(error))
    assert f"lost | {shown}" in text
    assert "Ada" not in text
    assert "Ada" not in json.dumps(jsonl("lost", error=raised(error)))
    assert str(error) in line("lost", error=raised(error), debug=True)


def test_of_the_event_loops_own_reports_only_the_first_line_is_shown():
    said = "Task exception was never retrieved\nfuture: <Task exception=ValueError('Ada')>"
    assert line(said, name="asyncio").endswith("asyncio: Task exception was never retrieved")
    assert "Ada" in line(said, name="asyncio", debug=True)


def test_a_line_of_text_names_what_it_is_about_unless_its_sentence_does():
    text = line("resp_1 went on", response="resp_1", round=1, attempt=2, ms=17)
    assert text.endswith("resp_1 went on round=1 attempt=2")
    assert line("lost", request="req_1").endswith("lost request=req_1")


def test_an_object_has_the_text_the_roles_and_every_field():
    assert jsonl("took %d", 3, response="resp_1", round=2, ms=17) == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "ingest.run",
        "message": "took 3",
        "roles": ["ingest", "translate"],
        "response": "resp_1",
        "round": 2,
        "ms": 17,
    }


def test_an_object_says_what_was_raised_and_where_without_secrets():
    found = jsonl(
        "to %s", "opensesame", error=raised(StoreAway("opensesame")), secrets=["opensesame"]
    )
    assert (found["message"], found["error"]) == ("to ***", "StoreAway: ***")
    assert found["place"].startswith("in raised, ")
    assert jsonl("x", path='/"opensesame', secrets=["opensesame"])["path"] == '/"***'


def test_every_field_that_the_code_gives_is_one_that_is_shown():
    root = Path(__file__).parents[2]
    packages = ("streams", "ingest", "workers", "api", "respool")
    given = set()
    for path in (path for name in packages for path in (root / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (isinstance(node, ast.keyword) and node.arg == "extra") or (
                isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("about")
            ):
                found = node.value
            else:
                continue
            if isinstance(found, ast.Dict):
                given |= {key.value for key in found.keys if key is not None}
    assert given
    assert given <= set(FIELDS)


def test_an_exception_that_was_never_raised_has_no_place():
    assert line("lost", error=ValueError("x")).endswith("lost | ValueError")


def test_secrets_are_blanked_out_wherever_they_come_from():
    text = line("to %s", "redis://:opensesame@db", secrets=["opensesame", "db"])
    assert text.endswith("to redis://:***@db")


def test_the_libraries_are_kept_quiet(capsys, monkeypatch):
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure("DEBUG", ["opensesame"])
        monkeypatch.setattr(root.handlers[0], "stream", sys.stderr)
        logging.getLogger("asyncio").info("not shown")
        logging.getLogger("api").debug("opensesame")
        assert capsys.readouterr().err.endswith("DEBUG api: ***\n")
    finally:
        root.handlers[:] = before
        root.setLevel(level)

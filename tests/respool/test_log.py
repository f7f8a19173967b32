"""The log's lines: one an event, and no secret in them."""

import logging
import sys

from respool.log import OneLine, configure


def line(message, *args, secrets=(), error=None):
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("ingest.run", logging.INFO, __file__, 1, message, args, info)
    record.created, record.msecs = 0.25, 250.0
    return OneLine(secrets).format(record)


def test_a_line_says_when_how_bad_where_and_what():
    assert line("took %d", 3) == "1970-01-01T00:00:00.250Z INFO ingest.run: took 3"


def test_what_a_client_sent_cannot_start_a_line_of_its_own():
    assert line("model %s", "a\n2026 ERROR x").count("\n") == 0


def test_an_exception_stays_in_its_line_and_says_where_it_was_raised():
    def fall():
        raise KeyError("b\nc")

    try:
        fall()
    except KeyError as error:
        text = line("lost", error=error)
    assert "| KeyError: 'b\\nc' (in fall, " in text
    assert "\n" not in text


def test_an_exception_that_was_never_raised_has_no_place():
    assert line("lost", error=ValueError("x")).endswith("lost | ValueError: x")


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

"""The documents say what the code does: nothing missing, nothing invented."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from respool.cli import app
from respool.demo_upstream import answer
from respool.roles import Role
from respool.settings import PREFIX, Settings
from streams import metrics
from streams.keys import Keys
from tests.translator.drive import ev, fold, upstream
from translator.hosted_items import HOSTED_EVENTS
from translator.protocol.entries import Kind

ROOT = Path(__file__).parent.parent
DOCS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")],
    key=lambda path: path.as_posix(),
)
UNITS = {"MiB": 1 << 20}


def rows(name):
    """The cells of every table row of a document, without headings and rules."""
    for line in (ROOT / "docs" / name).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|- "):
            yield cells


def words(text):
    """What is set in code in a text."""
    return re.findall(r"`([^`]+)`", text)


# ---- settings


def documented_settings():
    return {words(row[0])[0]: row[1] for row in rows("settings.md") if PREFIX in row[0]}


def test_every_setting_is_documented_and_no_other():
    real = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert set(documented_settings()) == real


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_the_default_is_the_one_in_the_code(name):
    shown = documented_settings()[f"{PREFIX}{name.upper()}"].strip("`")
    default = Settings.model_fields[name].default
    if default is None or default == ():
        assert shown in ("none", "embedded", "by dialect")
    elif isinstance(default, bool | str):
        assert shown in (str(default).lower(), default)
    else:
        number, _, unit = shown.partition(" ")
        assert float(number) * UNITS.get(unit, 1) == default


OF_THE_TESTS = {
    *("RESPOOL_TEST_REDIS_URL", "RESPOOL_TEST_SERVER", "RESPOOL_TEST_BROWSER", "RESPOOL_CODEX"),
}


def test_settings_named_anywhere_exist():
    real = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for path in [*DOCS, ROOT / "compose.yaml", ROOT / "Dockerfile", *ROOT.glob("deploy/**/*.*")]:
        named = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", path.read_text()))
        assert named - real - OF_THE_TESTS == set(), path.name


# ---- commands


def test_commands_named_anywhere_exist():
    commands = set(get_command(app).commands)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCS:
        text = path.read_text()
        assert set(re.findall(r"\brespool ([a-z]+)\b", "\n".join(code(text)))) <= commands, path
        assert set(re.findall(r"\bmake ([a-z-]+)", "\n".join(code(text)))) <= targets, path


def code(text):
    """Everything that is set as code."""
    blocks = re.findall(r"```[^\n]*\n(.*?)```", text, re.DOTALL)
    return [*blocks, *words(re.sub(r"```.*?```", "", text, flags=re.DOTALL))]


def test_every_role_is_documented():
    described = {words(row[0])[0] for row in rows("running.md") if words(row[0])}
    assert described == set(Role)


# ---- metrics


def shape(name):
    """Type and labels of a figure, as the code declares them."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return ("histogram" if name in metrics.BOUNDS else kind), set(metrics.LABELS.get(name, ()))


def test_every_metric_is_documented_as_it_is_and_no_other():
    listed = [row for row in rows("metrics.md") if "`" in row[0]]
    documented = {words(row[0])[0]: (row[1], set(words(row[2]))) for row in listed}
    assert len(documented) == len(listed)
    assert documented == {f"{metrics.PREFIX}{name}": shape(name) for name in metrics.NAMES}


def test_metrics_named_anywhere_exist():
    endings = ("", "_bucket", "_sum", "_count")
    plain = {f"{metrics.PREFIX}{name}" for name in metrics.NAMES}
    real = plain | {f"{metrics.PREFIX}{name}{end}" for name in metrics.BOUNDS for end in endings}
    for path in DOCS:
        if path.name != "CHANGELOG.md":  # which names those that are gone
            text = path.read_text()
            named = set(re.findall(rf"\b{metrics.PREFIX}[a-z_]+[a-z]\b", text))
            assert named <= real | NO_METRICS, path.name


NO_METRICS = {"respool_seal"}


# ---- events


NOT_FOLDED = {"error", "keepalive"}
"""Made by the api while it sends, never part of a log."""


def emitted():
    """The types of every event that the machine makes of well-behaved upstreams."""
    function = {"type": "function", "name": "apply", "parameters": {"type": "object"}}
    custom = {"type": "custom", "name": "apply"}
    wrapped = {**function, "parameters": {"type": "object", "properties": {"input": {}}}}
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    quote = {"type": "url_citation", "url": "https://a.test", "title": "a"}
    note = ev("output_text.annotation.added", annotation=quote, annotation_index=0, **place)
    sink = list(answer({"model": "kitchen-sink", "input": "x", "tools": [function]}))
    part_done = next(
        at
        for at, event in enumerate(sink)
        if event["type"].endswith("output_text.done") and event["output_index"] == 1
    )
    wrapped_sink = answer({"model": "kitchen-sink", "input": "x", "tools": [wrapped]})
    cut = {
        "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    }
    logs = (
        upstream(*sink[:part_done], note, *sink[part_done:], tools=[function]),
        upstream(*wrapped_sink, tools=[custom], background=True),
        upstream(*sink[:-1], ev("incomplete", **cut), tools=[function]),
        upstream(*sink[:-1], tools=[function]),
    )
    return {event["type"] for log in logs for event in fold(log.entries).events}


def test_every_public_event_is_documented_and_no_other():
    documented = set()
    for row in rows("events.md"):
        if len(row) == 2 and words(row[0]) and row[0].startswith("`"):
            documented |= set(words(row[0]))
        if row[0] == "from the upstream":
            break
    hosted = set().union(*HOSTED_EVENTS.values())
    assert documented == emitted() | hosted | NOT_FOLDED


# ---- the log


def test_every_key_is_documented():
    keys = Keys("ns")
    real = {
        *(call("{rid}") for call in (keys.state, keys.input, keys.output)),
        *(call("{rid}") for call in (keys.seal, keys.secrets, keys.jobs)),
        *(keys.refusal("{rid}"), keys.bell_in("{rid}"), keys.bell_out("{rid}"), *keys.open),
        *(keys.work(kind) for kind in ("rounds", "translate", "tools")),
        re.sub("[0-9a-f]{32}", "<hash>", keys.idempotency("tenant", "key")),
    }
    real = {name.replace("{{rid}}", "{rid}") for name in real}
    table = [word for row in rows("log.md") for word in words(row[0]) if re.match(r"\{?ns:", word)]
    assert sorted(table) == sorted(real)


def test_every_kind_of_entry_is_documented():
    text = (ROOT / "docs" / "log.md").read_text()
    table = text.partition("## Entries of the input log")[2].partition("## ")[0]
    assert re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE) == list(Kind)


# ---- dependencies


def names(requirements):
    return {re.match(r"[A-Za-z0-9-]+", text)[0].lower() for text in requirements}


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = {row[0].lower() for row in rows("dependencies.md")} - {"package"}
    used = names(project["project"]["dependencies"]) | names(project["build-system"]["requires"])
    for extra in project["project"]["optional-dependencies"].values():
        used |= names(extra)
    assert listed == used - {"respool"}


# ---- tests that the documents name


def named_tests():
    """Every `tests/FILE.py::test_name` of the documents."""
    for path in DOCS:
        for place in words(path.read_text()):
            if re.fullmatch(r"tests/[a-z_/]+\.py::test_[a-z0-9_]+", place):
                yield path.name, place


def functions(path):
    tree = ast.parse(path.read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_test_that_is_named_exists():
    known = {}
    for document, place in named_tests():
        file, _, name = place.partition("::")
        found = known.setdefault(file, functions(ROOT / file) if (ROOT / file).exists() else set())
        assert name in found, f"{document}: {place}"


@pytest.mark.parametrize("document", ["limits.md", "failures.md"])
def test_every_row_of_a_promise_names_a_test(document):
    bare = [row for row in rows(document) if row[-1] != "test" and "::" not in row[-1]]
    assert bare == []


def test_every_setting_that_is_a_limit_is_among_the_limits():
    text = (ROOT / "docs" / "limits.md").read_text()
    for name in Settings.model_fields:
        if name.startswith("max_"):
            assert f"{PREFIX}{name.upper()}" in text, name


# ---- the documents themselves


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    for path in folder.glob("0*.md"):
        assert path.name in index
        assert "Not settled here" in path.read_text()


def test_no_file_names_the_machine_that_it_was_written_on():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    # In pieces, so that this file does not name them either.
    hosts = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "/" + "work/"]
    for name in filter(None, listed.stdout.split("\0")):
        text = (ROOT / name).read_text(errors="replace")
        assert not [host for host in hosts if host in text], name

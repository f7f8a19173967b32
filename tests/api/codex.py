"""Codex CLI as a client: the program itself where it is installed, and what it sends in our own words."""

import asyncio
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.gateway import Gateway

VARIABLE = "RESPOOL_CODEX"
NAMED = os.environ.get(VARIABLE)
PROGRAM = str(Path(NAMED).absolute()) if NAMED else None
DOCUMENT = Path(__file__).parents[2] / "docs" / "codex.md"
LONGEST_S = 15.0
NOWHERE = "http://127.0.0.1:9"
"""Whatever else Codex wants from the network goes to a port where nobody listens."""

TURN = {
    "tool_choice": "auto",
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "thread-1",
    "client_metadata": {"thread": "thread-1", "turn": "turn-1"},
}
SHELL = {
    "type": "function",
    "name": "exec_command",
    "description": "Runs a command.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"cmd": {"type": "string"}, "tty": {"type": "boolean", "encrypted": True}},
        "required": ["cmd"],
    },
}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Other agents.",
    "tools": [{**SHELL, "name": "spawn"}, {**SHELL, "name": "stop"}],
}
PATCH_GRAMMAR = """\
start: "*** Begin Patch" LF add+ "*** End Patch" LF?
add: "*** Add File: " /(.+)/ LF ("+" /(.*)/ LF)+
%import common.LF
"""
APPLY_PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files; takes a patch, not JSON.",
    "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
}
SCRIPT_GRAMMAR = """\
start: pragma? SOURCE
pragma: /\\/\\/ @exec:[^\\r\\n]*/ NEWLINE
NEWLINE: /\\r?\\n/
SOURCE: /[\\s\\S]+/
"""
EXEC = {
    "type": "custom",
    "name": "exec",
    "description": "Runs a script.",
    "format": {"type": "grammar", "syntax": "lark", "definition": SCRIPT_GRAMMAR},
}
LITE_TOOLS = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [
        {
            "type": "namespace",
            "name": "functions",
            "description": "",
            "tools": [EXEC, {**SHELL, "name": "wait"}],
        },
        AGENTS,
    ],
}


def message(role: str, *texts: str) -> dict[str, Any]:
    parts = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": role, "content": parts}


OPENING = [
    message("developer", "You are a careful agent."),
    message("developer", "<skills>none</skills>", "<permissions>all</permissions>"),
    message("user", "<environment>bash</environment>"),
    message("user", "say hello with the tool"),
]
OURS: dict[str, dict[str, Any]] = {
    "stub": {
        **TURN,
        "tools": [SHELL, AGENTS],
        "input": OPENING,
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
    },
    "gpt-5.5": {
        **TURN,
        "tools": [SHELL, APPLY_PATCH],
        "input": OPENING,
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium"},
        "text": {"verbosity": "low"},
    },
    "gpt-5.6-sol": {
        **TURN,
        "input": [LITE_TOOLS, *OPENING],
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "context": "all_turns"},
        "text": {"verbosity": "low"},
    },
}
"""First requests of its three shapes by the model that brings them about."""


def handed_back(item: dict[str, Any], output: str) -> list[dict[str, Any]]:
    """An item of an answer as Codex sends it with the next turn, and what its call gave."""
    if item["type"] == "reasoning":
        kept = {key: item.get(key) for key in ("type", "id", "summary", "encrypted_content")}
        return [kept | {"content": None}]
    if item["type"] == "custom_tool_call":
        parts = [{"type": "input_text", "text": text} for text in ("Completed\n", output)]
        answer = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": parts}
        return [item, {"id": "ctco_1", **answer}]
    if item["type"] == "function_call":
        answer = {"type": "function_call_output", "call_id": item["call_id"], "output": output}
        return [item, answer]
    return [item]


@dataclass
class Run:
    """What a run of the program came to."""

    status: int
    shown: str
    folder: Path


async def codex(gateway: Gateway, folder: Path, model: str, *arguments: str) -> Run:
    """Run the real program with the configuration of docs/codex.md, for one prompt."""
    if PROGRAM is None:
        pytest.skip(f"{VARIABLE} does not name a Codex CLI")
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    (home / "config.toml").write_text(configuration(gateway.url, model))
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "exec", "--skip-git-repo-check"),
        *("--sandbox", "danger-full-access", *arguments, "say hello with the tool"),
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(home),
            "GATEWAY_KEY": "sk-test",
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            shown, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert process.returncode is not None
    return Run(process.returncode, shown.decode(), project)


def configuration(url: str, model: str) -> str:
    """The documented file, for this gateway and model, without what calls elsewhere or waits."""
    found = re.search(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    text = found[1].replace("http://127.0.0.1:8080", url).replace("MODEL", model)
    assert url in text
    quiet = "check_for_update_on_startup = false\n"
    return (
        quiet
        + text
        + "request_max_retries = 1\nstream_max_retries = 1\n"
        + ("[analytics]\nenabled = false\n")
    )

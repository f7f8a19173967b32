"""LiteLLM's proxy as a peer, in an environment of its own, which is made when it is first asked for.

In: the scripted upstream's address, the names of the models that it will be asked for. Out: the proxy's address and
process id. It runs as it is meant to run without a database: one worker, no keys, nothing stored, its map of prices
from its own package (it would fetch one).
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from benchmarks.process import until
from respool.replica import free_port

PLACE = Path(__file__).parent.parent / ".peers" / "litellm"
PACKAGE = "litellm[proxy]"
INSTALL_S = 600
"""Some hundred packages."""
START_S = 120.0
"""It imports for ten seconds on an idle machine."""
STOP_S = 10.0
ASKED_S = 2.0
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
    "DO_NOT_TRACK": "1",
}


def installed(place: Path = PLACE) -> Path:
    """The proxy's command, installed first where it is not there."""
    command = place / "bin" / "litellm"
    if not command.exists():
        subprocess.run((sys.executable, "-m", "venv", str(place)), check=True)  # noqa: S603 - ours
        subprocess.run(  # noqa: S603 - ours
            (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", PACKAGE),
            check=True,
            timeout=INSTALL_S,
        )
    return command


def version(place: Path = PLACE) -> str:
    """The version that is installed; empty where none is."""
    found = next(place.glob("lib/python*/site-packages/litellm-*.dist-info"), None)
    return found.name.removeprefix("litellm-").removesuffix(".dist-info") if found else ""


def configuration(base: str, models: Iterable[str]) -> str:
    """Its configuration (JSON is YAML): the scripted upstream behind both of its ways.

    Each model is named, and said to stream: it has the answers of models that it does not know sent whole, and cuts
    them into pieces itself.
    """
    return json.dumps(
        {
            "model_list": [_model(base, name) for name in sorted(set(models))],
            "litellm_settings": {"drop_params": True, "num_retries": 0},
            # On loopback, for the time of a run, as the gateway beside it: whoever asks is served.
            "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
        }
    )


def _model(base: str, name: str) -> dict[str, object]:
    parameters: dict[str, object] = {
        "model": f"openai/{name}",
        "api_base": base,
        "api_key": "none",
        "use_chat_completions_api": name.startswith("chat:"),
    }
    return {
        "model_name": name,
        "litellm_params": parameters,
        "model_info": {"supports_native_streaming": True},
    }


@asynccontextmanager
async def litellm(base: str, models: Iterable[str]) -> AsyncIterator[tuple[str, int]]:
    """The proxy before an upstream; its address and its process id. It is ended with the block."""
    command = await asyncio.to_thread(installed)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="respool-bench-") as name:
        file, log = Path(name) / "config.yaml", Path(name) / "log"
        file.write_text(configuration(base, models))
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *(str(command), "--config", str(file), "--host", "127.0.0.1"),
                *("--port", str(port), "--num_workers", "1"),
                env={**os.environ, **QUIET},
                stdout=out,
                stderr=out,
                cwd=name,
            )
        try:
            await until(lambda: answers(port, process, log), START_S)
            yield f"http://127.0.0.1:{port}/v1", process.pid
        finally:
            await ended(process)


async def answers(port: int, process: asyncio.subprocess.Process, log: Path) -> bool:
    """Whether it serves. Raises RuntimeError once it has ended instead."""
    if process.returncode is not None:
        said = await asyncio.to_thread(log.read_text, errors="replace")
        raise RuntimeError(f"litellm did not start: {said[-600:]}")
    timeout = aiohttp.ClientTimeout(total=ASKED_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://127.0.0.1:{port}/health/liveliness") as answer,
        ):
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


async def ended(process: asyncio.subprocess.Process) -> None:
    """Ask it to end, and see to it."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

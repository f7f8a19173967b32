"""One response in a store, with every call on it at hand and defaults for what a test does not care about."""

import secrets
from typing import Any

from streams.logs import State
from streams.scripts import outputs, responses, rounds, sealing, tools
from streams.scripts.refused import Reason, Refused
from streams.sealed import Packer
from streams.store import Store
from translator.protocol.entries import Kind

LEASE_MS = 60_000
PLENTY = 10**9


class Rig:
    def __init__(self, store: Store, rid: str | None = None) -> None:
        self.store = store
        self.keys = store.keys
        self.rid = rid or f"resp_{secrets.token_hex(16)}"
        self.claimed: rounds.Claim | None = None
        self.lease: outputs.Lease | None = None

    async def do(self, call: Any) -> Any:
        return await self.store.writer.do(call)

    async def create(self, **changes: Any) -> responses.Created:
        return await self.do(self.creating(**changes))

    def creating(self, **changes: Any):
        given = {
            "tenant": "acme",
            "store": True,
            "background": False,
            "request_data": b'{"request":1}',
            "round_body": b'{"round":1}',
            "run_ms": 600_000,
            "retention_ms": 3_600_000,
        } | changes
        return responses.create(self.keys, self.rid, **given)

    async def claim(self, by: str = "ingest", *, round: int = 1, lease_ms: int = LEASE_MS):
        call = rounds.claim_round(self.keys, self.rid, round=round, token=by, lease_ms=lease_ms)
        self.claimed = await self.do(call)
        return self.claimed

    def appending(
        self, first: int, *items: tuple[str, bytes], fence: str | None = None, **changes: Any
    ):
        given = {"lease_ms": LEASE_MS, "max_in_bytes": PLENTY} | changes
        return rounds.append(
            self.keys,
            self.rid,
            fence=fence or self.claimed.fence,
            first_frame_no=first,
            items=items,
            **given,
        )

    async def append(self, first: int, *items: tuple[str, bytes], **changes: Any):
        return await self.do(self.appending(first, *items, **changes))

    async def beat_round(self, fence: str | None = None, lease_ms: int = LEASE_MS):
        return await self.do(
            rounds.heartbeat_round(
                self.keys, self.rid, fence=fence or self.claimed.fence, lease_ms=lease_ms
            )
        )

    async def lose(self, by: str = "sweeper"):
        return await self.do(rounds.lost(self.keys, self.rid, token=by))

    async def acquire(self, by: str = "translate", lease_ms: int = LEASE_MS):
        call = outputs.acquire(self.keys, self.rid, token=by, lease_ms=lease_ms)
        self.lease = await self.do(call)
        return self.lease

    def committing(self, expected: int, cursor: int, first: int, *frames: bytes, **changes: Any):
        given = {
            "fence": self.lease.fence,
            "digest": f"after {first + len(frames) - 1}",
            "lease_ms": LEASE_MS,
            "retain_ms": 60_000,
            "max_out_bytes": PLENTY,
        } | changes
        return outputs.commit(
            self.keys,
            self.rid,
            expected_cursor=expected,
            cursor=cursor,
            first_seq=first,
            frames=frames,
            **given,
        )

    async def commit(self, expected: int, cursor: int, first: int, *frames: bytes, **changes: Any):
        return await self.do(self.committing(expected, cursor, first, *frames, **changes))

    async def finish(self, cursor: int, first: int, *frames: bytes, **changes: Any):
        """The terminal commit, from cursor to cursor."""
        given = {"status": "completed", "terminal": True} | changes
        return await self.commit(cursor, cursor, first, *frames, **given)

    async def beat(self, fence: str | None = None, lease_ms: int = LEASE_MS):
        return await self.do(
            outputs.heartbeat(
                self.keys, self.rid, fence=fence or self.lease.fence, lease_ms=lease_ms
            )
        )

    async def release(self, fence: str | None = None):
        return await self.do(outputs.release(self.keys, self.rid, fence=fence or self.lease.fence))

    async def cancel(self, reason: str = "client", reader: str = ""):
        return await self.do(responses.cancel(self.keys, self.rid, reason=reason, reader=reader))

    async def delete(self):
        return await self.do(responses.delete(self.keys, self.rid))

    async def packed(self) -> Packer:
        """Both logs, packed."""
        logs, packer = self.store.logs, Packer()
        said, shown = await self.log(), await logs.read_output(self.rid, -1, 10_000)
        packer.add(said, shown.frames)
        return packer

    async def seal(self, packer: Packer | None = None, **changes: Any) -> bool:
        """Put what was packed in the place of the logs; whether it was there already."""
        packer = packer or await self.packed()
        given = {
            "value": packer.value(),
            "entries": packer.entries,
            "frames": packer.frames,
        } | changes
        return await self.do(sealing.seal(self.keys, self.rid, **given))

    async def keep(self, lease_ms: int = 1_000, grace_ms: int = 1_000, reader: str = "reader"):
        call = responses.keep(
            self.keys, self.rid, reader=reader, lease_ms=lease_ms, grace_ms=grace_ms
        )
        return await self.do(call)

    async def claim_tool(
        self, by: str = "worker", *, lease_ms: int = LEASE_MS, limit: int = 5, **changes: Any
    ):
        call = tools.claim_tool(
            self.keys, self.rid, token=by, lease_ms=lease_ms, limit=limit, **changes
        )
        return await self.do(call)

    async def beat_tool(self, fence: str, lease_ms: int = LEASE_MS):
        call = tools.heartbeat_tool(self.keys, self.rid, fence=fence, lease_ms=lease_ms)
        return await self.do(call)

    async def release_tool(self, fence: str):
        return await self.do(tools.release_tool(self.keys, self.rid, fence=fence))

    async def tool_result(self, key: str, data: bytes = b"{}", **changes: Any):
        given = {"kind": Kind.TOOL_RESULT} | changes
        return await self.do(tools.tool_result(self.keys, self.rid, key=key, data=data, **given))

    async def expire_tools(self, **changes: Any):
        return await self.do(tools.expire_tools(self.keys, self.rid, **changes))

    async def running(self) -> "Rig":
        """Created, claimed and acquired; the log holds request, round and attempt."""
        await self.create()
        await self.claim()
        await self.acquire()
        return self

    async def finished(self, *frames: bytes) -> "Rig":
        """Created, acquired and finished with these frames, the last of them terminal."""
        await self.create()
        await self.acquire()
        await self.finish(0, 0, *(frames or (b"only",)))
        return self

    async def state(self) -> State:
        state = await self.store.logs.state(self.rid)
        assert state is not None
        return state

    async def log(self) -> list[Any]:
        return await self.store.logs.read_input(self.rid, 0, 10_000)

    async def everything(self) -> list[Any]:
        """All that Redis holds of the response, to see that a call changed nothing."""
        command = self.store.connections.command
        keys = self.keys
        return [
            await command("HGETALL", keys.state(self.rid)),
            await command("XRANGE", keys.input(self.rid), "-", "+"),
            await command("XRANGE", keys.output(self.rid), "-", "+"),
            await command("GET", keys.seal(self.rid)),
            await command("HGETALL", keys.secrets(self.rid)),
            await command("HGETALL", keys.jobs(self.rid)),
        ]

    async def lifetimes(self) -> dict[str, int]:
        """The remaining life in ms of each key that is there."""
        keys = self.keys
        names = {
            "st": keys.state(self.rid),
            "in": keys.input(self.rid),
            "out": keys.output(self.rid),
            "seal": keys.seal(self.rid),
            "sec": keys.secrets(self.rid),
            "jobs": keys.jobs(self.rid),
        }
        lives = {n: await self.store.connections.command("PTTL", k) for n, k in names.items()}
        return {name: life for name, life in lives.items() if life != -2}


async def refused(work: Any) -> Reason:
    """The reason for which a script refuses."""
    try:
        result = await work
    except Refused as error:
        return error.reason
    raise AssertionError(f"not refused: {result!r}")


async def refused_unchanged(rig: Rig, *calls: Any) -> list[Reason]:
    """The reasons for which calls are refused, one after another, none of them leaving a trace."""
    before = await rig.everything()
    reasons = [await refused(call) for call in calls]
    assert await rig.everything() == before
    return reasons

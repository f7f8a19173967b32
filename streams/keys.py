"""The names of everything in Redis, and how long each may live.

In: a deployment's namespace and a response id. Out: key and channel names. Every module of `streams` takes its names
from here, so this page is the whole map. All keys of one response carry the hash tag `{rid}`: one slot in a cluster,
hence one script may touch them all; work hints, the due set and the channels are keys of their own. The places of open
responses share the slot of the due set, whose whole name is their tag.

| name               | type    | lives                                                                    |
|--------------------|---------|--------------------------------------------------------------------------|
| `ns:{rid}:st`      | hash    | run + retention from create; from the terminal commit: retention          |
| `ns:{rid}:in`      | stream  | with `st`                                                                |
| `ns:{rid}:out`     | stream  | with `st`                                                                |
| `ns:{rid}:seal`    | string  | with `st`, from some minutes after the end (or from an import), in place of `in` and `out` |
| `ns:{rid}:sec`     | hash    | with `st`, at most until the terminal commit                             |
| `ns:{rid}:jobs`    | hash    | with `st`, at most until the terminal commit                             |
| `ns:{rid}:refusal` | string  | KEPT_MS (`streams.scripts.refusals`)                                     |
| `ns:work:<kind>`   | stream  | WORK_TTL_MS, renewed on use                                              |
| `ns:due`           | zset    | DUE_TTL_MS, renewed on use                                               |
| `ns:open:{ns:due}`    | zset    | DUE_TTL_MS, renewed on use; there only where open responses are bounded   |
| `ns:owner:{ns:due}`   | hash    | with `open`                                                              |
| `ns:count:{ns:due}`   | hash    | with `open`                                                              |
| `ns:idem:<hash>`   | string  | as long as the response may: run + retention                             |
| `ns:{rid}:bell:in` | channel | a channel holds nothing                                                  |
| `ns:{rid}:bell:out`| channel |                                                                          |
"""

import hashlib

WORK_KINDS = ("rounds", "translate", "tools")

DAY_MS = 24 * 60 * 60 * 1000
WORK_TTL_MS = 7 * DAY_MS
"""Hints: a week outlives every quiet weekend, and an abandoned deployment leaves nothing behind."""
DUE_TTL_MS = 30 * DAY_MS
"""The due set is looked at every second where a sweeper runs; without one for a month no response is left to sweep."""


class Keys:
    """Names of one deployment. `ns` must not contain braces: they would move the hash tag."""

    __slots__ = ("_prefix", "due", "ns", "open")

    def __init__(self, ns: str) -> None:
        if not ns or "{" in ns or "}" in ns:
            raise ValueError(f"namespace {ns!r} must be a word without braces")
        self.ns = ns
        self._prefix = ns + ":{"
        self.due = f"{ns}:due"
        # The tag puts them into the due set's slot; they begin with the namespace, as rights of users go by it.
        self.open = (
            self.due,
            *(f"{ns}:{name}:{{{self.due}}}" for name in ("open", "owner", "count")),
        )

    def state(self, rid: str) -> str:
        """The hash that says who owns a response and how far everybody is."""
        return f"{self._prefix}{rid}}}:st"

    def input(self, rid: str) -> str:
        """The input log: all that happened, ids `n-1` from n = 1."""
        return f"{self._prefix}{rid}}}:in"

    def output(self, rid: str) -> str:
        """The output log: public frames, ids `<sequence_number>-1`."""
        return f"{self._prefix}{rid}}}:out"

    def seal(self, rid: str) -> str:
        """Both logs of a finished response, packed: it takes their place."""
        return f"{self._prefix}{rid}}}:seal"

    def secrets(self, rid: str) -> str:
        """What tool workers need to know and nobody may see; gone at the terminal frame."""
        return f"{self._prefix}{rid}}}:sec"

    def jobs(self, rid: str) -> str:
        """The calls that tool workers are to run, who runs them, and which have a result."""
        return f"{self._prefix}{rid}}}:jobs"

    def refusal(self, rid: str) -> str:
        """What the upstream said to a response that was deleted for it."""
        return f"{self._prefix}{rid}}}:refusal"

    def bell_in(self, rid: str) -> str:
        """The channel that rings when the input log grew."""
        return f"{self._prefix}{rid}}}:bell:in"

    def bell_out(self, rid: str) -> str:
        """The channel that rings when the output log grew."""
        return f"{self._prefix}{rid}}}:bell:out"

    def idempotency(self, tenant: str, key: str) -> str:
        """What a tenant's Idempotency-Key stands for. What the client wrote is hashed: it may hold anything."""
        digest = hashlib.blake2b(f"{tenant}\0{key}".encode(), digest_size=16).hexdigest()
        return f"{self.ns}:idem:{digest}"

    def work(self, kind: str) -> str:
        """The stream of hints "this response wants work of this kind"."""
        if kind not in WORK_KINDS:
            raise ValueError(f"no such kind of work: {kind!r}")
        return f"{self.ns}:work:{kind}"

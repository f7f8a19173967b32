"""The Lua scripts, one file each, and their typed callers.

`responses` (create, cancel, delete, keep), `rounds` (claim_round, append, heartbeat_round, lost), `outputs` (acquire,
commit, heartbeat, release, read_output, last_frame), `inputs` (read_input), `tools` (claim_tool, heartbeat_tool,
release_tool, tool_result, expire_tools), `sealing` (seal, read_seal), `restoring` (restore) and `hints` (work queues,
the due set) build a `Call`; a `Writer` sends it and hands back its parsed result or raises `Refused`. In each script
every check stands before the first write, a missing state hash is a refusal, and a repeated call is recognised before
anything is refused.
"""

"""The end of a response, for those who want only that: a blocking create, and a cancel.

In: a reader of an output log. Out: its terminal frame, from which the answer is taken as it is.
"""

from streams.faults import LogLost
from streams.hub import Reader
from streams.scripts.outputs import Frame


async def terminal(reader: Reader, rid: str) -> Frame:
    """Read to the terminal frame. Raises what the reader raises, LogLost if it ends without one."""
    async for batch in reader:
        if batch[-1].terminal:
            return batch[-1]
    raise LogLost(rid, reader.after)

"""The routes of the debug page; there are none where RESPOOL_DEBUG_UI is off.

In: a Context. Out: paths and the handler of each one's GET. Called by `api.app`.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from api.context import Context
from api.debug.inspection import Inspection
from api.debug.page import Page
from api.debug.recent import Recent

API = "/debug/api/responses"


def routes(context: Context, auth: Auth) -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """Every route. The page's own files are public, since they hold nothing; all else belongs to a tenant."""
    if not context.settings.debug_ui:
        return {}
    page = Page(auth)
    inspection = Inspection(context, auth)
    one = f"{API}/{{response_id}}"
    return {
        "/debug": page.document,
        "/debug/": page.slash,
        "/debug/{name}": page.file,
        API: Recent(context, auth).list,
        one: inspection.summary,
        f"{one}/log": inspection.log,
        f"{one}/entries/{{n}}": inspection.entry,
        f"{one}/frames": inspection.frames,
        f"{one}/frames/{{seq}}": inspection.frame,
        f"{one}/state": inspection.state,
        f"{one}/replay": inspection.replay,
        f"{one}/export": inspection.export,
    }

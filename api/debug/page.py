"""The debug page's own files: one document, its styles and its modules, as they lie in `api/debug/page`.

In: a GET. Out: a file from the package, with headers that let the browser run nothing but these files: a policy without
inline scripts, without other hosts, and with Trusted Types, so that a text can never become markup. The files hold no
data of anybody's and are served without a key (a browser cannot send one when it opens a page); without configured keys
they are for this machine only, like everything else.
"""

import hashlib
from http import HTTPStatus
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.auth import Auth
from translator.protocol.errors import AuthenticationError, NotFound

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""What the model wrote is hostile: even a mistake of the page's cannot make it run."""

HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Asked for again each time and mostly answered with 304: a new version is seen at once.
    "cache-control": "no-cache",
}

DOCUMENT: Final = "index.html"


class Page:
    """The files, read once."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self._files: dict[str, tuple[bytes, str, str]] = {}  # content, media type, tag; by name
        for file in resources.files("api.debug").joinpath("page").iterdir():
            suffix = file.name.rpartition(".")[2]
            if suffix in TYPES:
                content = file.read_bytes()
                tag = hashlib.blake2b(content, digest_size=12).hexdigest()
                self._files[file.name] = content, TYPES[suffix], f'"{tag}"'

    async def document(self, request: Request) -> Response:
        """GET /debug."""
        return self._file(request, DOCUMENT)

    async def slash(self, request: Request) -> Response:
        """GET /debug/: people write it; the page's addresses are relative to the one without."""
        self._refuse_strangers(request)
        return Response(status_code=308, headers={**HEADERS, "location": "../debug"})

    async def file(self, request: Request) -> Response:
        """GET /debug/{name}."""
        return self._file(request, request.path_params["name"])

    def _refuse_strangers(self, request: Request) -> None:
        try:
            self._auth.tenant(request)
        except AuthenticationError as error:
            # Where there are keys, the page is what asks for one.
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise

    def _file(self, request: Request, name: str) -> Response:
        self._refuse_strangers(request)
        found = self._files.get(name)
        if found is None:
            raise NotFound("There is no such file.")
        content, kind, tag = found
        headers = {**HEADERS, "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

"""Which upstream serves a model, from settings that may change while the process runs.

In: the settings; `respool.toml`, looked at again (one `stat`) whenever an upstream is asked for, so
that an edit takes effect for the next request. Out: `translator.protocol.upstream.Upstream`. Used
by `api` (which one serves this model) and by `ingest` (where is the one that the log names).
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from respool.settings import FILE, NO_KEY, Settings, SettingsError, UpstreamTable, is_key, load
from translator.protocol.upstream import Api, CustomFormats, Upstream

log = logging.getLogger(__name__)

DEFAULT = "default"
"""The id of the upstream that RESPOOL_UPSTREAM_URL names."""
BY_ID: tuple[tuple[str, Api], ...] = (
    ("openai-compatible-chat-", "chat"),
    ("openai-compatible-responses-", "responses"),
)


APIS: tuple[Api, ...] = ("responses", "chat")


def api_of(upstream_id: str, stored: object) -> Api | None:
    """What the upstream speaks: as stored; only without a valid value does the id decide."""
    for api in APIS:
        if stored == api:
            return api
    for beginning, api in BY_ID:
        if upstream_id.startswith(beginning):
            return api
    return "responses" if stored is None else None


def upstreams_of(settings: Settings) -> tuple[Upstream, ...]:
    """All upstreams in the order of asking: the tables first, RESPOOL_UPSTREAM_URL last."""
    found = [_from_table(table, settings) for table in settings.upstreams]
    if settings.upstream_url:
        if any(upstream.id == DEFAULT for upstream in found):
            raise SettingsError(f"{FILE}: the id {DEFAULT!r} stands for RESPOOL_UPSTREAM_URL")
        key = settings.upstream_api_key
        found.append(
            Upstream(
                id=DEFAULT,
                base_url=settings.upstream_url,
                api=settings.upstream_api,
                api_key=key.get_secret_value() if key else None,
                custom_formats=settings.custom_formats or _formats(settings.upstream_api),
                reasoning_history=settings.reasoning_history,
            )
        )
    return tuple(found)


def _formats(api: Api) -> CustomFormats:
    """D2: a grammar is refused where nothing enforces it, and validated in front of Chat."""
    return "validate" if api == "chat" else "reject"


def _from_table(table: UpstreamTable, settings: Settings) -> Upstream:
    api = api_of(table.id, table.api)
    if api is None:
        raise SettingsError(f"{FILE}: upstreams {table.id!r}: api must be 'responses' or 'chat'")
    key = None
    if table.api_key_env:
        key = os.environ.get(table.api_key_env)
        if key is None:
            raise SettingsError(
                f"{FILE}: upstreams {table.id!r}: no environment variable {table.api_key_env!r}"
            )
        if not is_key(key):
            raise SettingsError(f"{table.api_key_env}: {NO_KEY}")
    formats = table.custom_formats or settings.custom_formats or _formats(api)
    reasoning = table.reasoning_history or settings.reasoning_history
    return Upstream(table.id, table.base_url, api, key, table.models, formats, reasoning)


class Upstreams:
    """The upstreams as they are now. An edit that cannot be used is told once, changes nothing."""

    def __init__(
        self, settings: Settings, *, read: Callable[[], Settings] = load, path: Path = FILE
    ) -> None:
        self._read = read
        self._path = path.absolute()
        self._seen = self._stamp()
        self._all = upstreams_of(settings)

    def all(self) -> tuple[Upstream, ...]:
        """Every upstream, in order."""
        self._look()
        return self._all

    def resolve(self, model: str) -> Upstream | None:
        """The first that serves the model, if any does."""
        return next((upstream for upstream in self.all() if upstream.serves(model)), None)

    def get(self, upstream_id: str) -> Upstream | None:
        """The one of that id, if it is (still) there."""
        return next((upstream for upstream in self.all() if upstream.id == upstream_id), None)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            found = upstreams_of(self._read())
        except SettingsError as error:
            log.warning("%s cannot be used as edited; the old upstreams stay: %s", FILE, error)
            return
        # A fault at a start, too; an editor that truncates and then writes passes here.
        if not found:
            log.warning("%s names no upstream as edited; the old upstreams stay", FILE)
            return
        self._all = found
        log.info("%s was edited: upstreams are now %s", FILE, ", ".join(u.id for u in found))

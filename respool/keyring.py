"""Who may come in, from settings and from a file that may change while the process runs.

In: RESPOOL_API_KEYS, which stays as it is, and RESPOOL_API_KEYS_FILE, looked at again (one `stat`)
whenever somebody asks, and read again at a SIGHUP. Out: `api.tenants.Tenants`. A file that cannot be
used as edited is told once, in words without anything of it, and changes nothing. Used by
`respool.serve`.

    acme = "one key"                       # respool-keys.toml
    beta = ["an old key", "a new key"]

    [gamma]
    keys = ["a key"]
    max_open = 20
    max_in_flight = 5
"""

import logging
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.tenants import Tenants
from respool.settings import NO_KEY, Settings, SettingsError, is_key

log = logging.getLogger(__name__)

NAME: Final = "RESPOOL_API_KEYS_FILE"

PLACE: Final = re.compile(r"\(at [^()]*\)$")
"""What of a TOML error tells where it is, and nothing of what stands there."""

MAX_FILE_BYTES: Final = 4 << 20
"""Some ten thousand tenants. The file is read while requests wait."""

MAX_TENANT_CHARS: Final = 200
"""A name is stored with each of its tenant's responses."""


KNOWN: Final = "is not a key, a list of keys, or a table of keys, max_open and max_in_flight"


class TenantTable(BaseModel):
    """One tenant of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    keys: tuple[str, ...]
    max_open: Annotated[int, Field(ge=1)] | None = None
    max_in_flight: Annotated[int, Field(ge=1)] | None = None


def tenants_of(settings: Settings, path: Path | None) -> Tenants:
    """Everybody of the settings and of the file. Raises SettingsError, whose text holds no key."""
    keys = dict(settings.tenants)
    tables = _read(path) if path is not None else {}
    for number, (name, table) in enumerate(tables.items(), start=1):
        for place, key in enumerate(table.keys, start=1):
            if not key or not is_key(key):
                raise SettingsError(f"{NAME}: entry {number}: key {place} is empty or {NO_KEY}")
            if keys.setdefault(key, name) != name:
                raise SettingsError(f"{NAME}: entry {number}: key {place} is also another tenant's")
    if path is not None and not any(table.keys for table in tables.values()):
        # Without any key a gateway serves whoever is local: no slip in an editor may come to that.
        raise SettingsError(f"{NAME}: holds no key")
    return Tenants(
        tuple((key.encode(), tenant) for key, tenant in keys.items()),
        {name: table.max_open for name, table in tables.items() if table.max_open},
        {name: table.max_in_flight for name, table in tables.items() if table.max_in_flight},
    )


def _read(path: Path) -> dict[str, TenantTable]:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise SettingsError(f"{NAME}: is larger than {MAX_FILE_BYTES} bytes")
        found = tomllib.loads(raw.decode())
    except OSError as error:
        raise SettingsError(f"{NAME}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{NAME}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        where = PLACE.search(str(error))
        raise SettingsError(f"{NAME}: is not TOML {where[0] if where else ''}".rstrip()) from None
    return {
        name: _table(f"{NAME}: entry {number}", name, value)
        for number, (name, value) in enumerate(found.items(), start=1)
    }


def _table(where: str, name: str, value: Any) -> TenantTable:
    """One entry. Names are not repeated in a fault: who writes key and tenant the wrong way round shows no key."""
    if not name.strip() or len(name) > MAX_TENANT_CHARS or not name.isprintable():
        raise SettingsError(f"{where}: the tenant's name is empty, too long or not printable")
    if not isinstance(value, dict):
        value = {"keys": [value] if isinstance(value, str) else value}
    try:
        return TenantTable.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][0] if first["loc"] else ""
        told = f"{field}: {first['msg']}" if field in TenantTable.model_fields else KNOWN
        raise SettingsError(f"{where}: {told}") from None


class Keyring:
    """The tenants as they are now."""

    def __init__(
        self, settings: Settings, *, hide: Callable[[Iterable[str]], None] = lambda _: None
    ) -> None:
        """`hide` is told every key that comes in, for the log to blank out. Raises SettingsError."""
        self._settings = settings
        self._hide = hide
        file = settings.api_keys_file
        self._path = file.absolute() if file else None
        self._seen = self._stamp()
        self._now = tenants_of(settings, self._path)
        self._told()

    def now(self) -> Tenants:
        """Everybody, and what each may have open."""
        if self._path is not None and self._stamp() != self._seen:
            self.reread()
        return self._now

    def reread(self) -> None:
        """Read the file again, whether it looks changed or not."""
        if self._path is None:
            return
        self._seen = self._stamp()
        try:
            self._now = tenants_of(self._settings, self._path)
        except SettingsError as error:
            log.warning("the old keys stay: %s", error)
            return
        self._told()
        tenants = {tenant for _, tenant in self._now.keys}
        log.info("keys were read again: %d of %d tenants", len(self._now.keys), len(tenants))

    def _told(self) -> None:
        self._hide([key.decode() for key, _ in self._now.keys])

    def _stamp(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

"""Every setting of Respool, read once, here and nowhere else.

In: the environment (`RESPOOL_PORT=…`), then `respool.toml` in the working folder (`port = …`), then
the defaults below. Out: a frozen `Settings`, or a `SettingsError` whose text is one line that names
the setting and the kind of fault and never the value, which may be a secret. Called by
`respool.cli`; what other packages need of it is handed to them as plain values by `respool.serve`.
"""

import os
import re
import tomllib
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from respool import store_url
from respool.unusable import Unusable
from translator.protocol.upstream import CustomFormats, ReasoningHistory
from workers.tools.addresses import AllowedHosts

PREFIX = "RESPOOL_"
FILE = Path("respool.toml")
NO_KEY = "holds a blank, a line end or another character that no key has"


class SettingsError(Unusable):
    """The settings cannot be used."""


def http_base(url: str) -> str:
    """An upstream's base: what `/responses` or `/chat/completions` is appended to. Raises ValueError, saying why."""
    parts = store_url.split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a http or https address such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or password; use the API key setting")
    if parts.query or parts.fragment:
        raise ValueError("must end in a path such as /v1, without a query")
    return url.rstrip("/")


def _store_url(url: SecretStr) -> SecretStr:
    store_url.check(url.get_secret_value())
    return url


def is_key(text: str) -> bool:
    """Whether it can stand in an `Authorization` header."""
    return text.isascii() and text.isprintable() and " " not in text


def _sendable(value: SecretStr) -> SecretStr:
    if not is_key(value.get_secret_value()):
        raise ValueError(NO_KEY)
    return value


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _key_table(value: object) -> object:
    """In respool.toml the keys may also be a table of tenant to key."""
    if isinstance(value, dict):
        return ",".join(f"{tenant}={key}" for tenant, key in value.items())
    return value


def _key_list(value: SecretStr) -> SecretStr:
    keys_of(value)
    return value


def keys_of(setting: SecretStr) -> dict[str, str]:
    """`tenant=key,tenant2=key2` as key to tenant; a tenant may have several keys."""
    tenants: dict[str, str] = {}
    for place, pair in enumerate(setting.get_secret_value().split(","), start=1):
        tenant, equals, key = (part.strip() for part in pair.partition("="))
        if not (tenant and equals and key):
            raise ValueError(f"entry {place} is not of the form tenant=key")
        if not is_key(key):
            raise ValueError(f"entry {place} {NO_KEY}")
        if tenants.setdefault(key, tenant) != tenant:
            raise ValueError(f"entry {place} repeats the key of another tenant")
    return tenants


def _header_list(value: SecretStr) -> SecretStr:
    headers_of(value)
    return value


def headers_of(setting: SecretStr) -> dict[str, str]:
    """`name=value,name2=value2` as headers."""
    headers: dict[str, str] = {}
    for place, pair in enumerate(setting.get_secret_value().split(","), start=1):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (equals and re.fullmatch(r"[A-Za-z0-9-]+", name) and value):
            raise ValueError(f"entry {place} is not of the form name=value")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"entry {place} holds a character that no header has")
        headers[name] = value
    return headers


ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")


def _origin_list(value: str) -> str:
    """`https://app.example, http://localhost:3000`, or `*`."""
    if value.strip() == "*":
        return "*"
    origins = [one.strip().lower() for one in value.split(",")]
    for place, origin in enumerate(origins, start=1):
        if not ORIGIN.fullmatch(origin):
            raise ValueError(f"entry {place} is not of the form https://host or https://host:port")
    return ",".join(origins)


def _host_list(value: str) -> str:
    AllowedHosts(value)
    return value


Key = Annotated[SecretStr, AfterValidator(_sendable)]
HttpBase = Annotated[str, AfterValidator(http_base)]
Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class UpstreamTable(BaseModel):
    """One `[[upstreams]]` table of respool.toml; `respool.upstreams` settles what `api` means."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:/-]{1,100}$")]
    base_url: HttpBase
    api: Any = None
    api_key_env: str | None = None
    models: tuple[str, ...] = ()
    custom_formats: CustomFormats | None = None
    reasoning_history: ReasoningHistory | None = None


class Settings(BaseSettings):
    """What can be set. docs/settings.md has one row for each field; a test compares the two."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    allow_anonymous: bool = False
    api_keys: (
        Annotated[SecretStr, BeforeValidator(_key_table), AfterValidator(_key_list)] | None
    ) = None
    api_keys_file: Path | None = None
    cors_origins: Annotated[str, AfterValidator(_origin_list)] | None = None

    redis_url: Annotated[SecretStr, AfterValidator(_store_url)] | None = None
    # Braces and colons have a meaning in our keys.
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "respool"
    allow_eviction: bool = False
    # A store that starts beside us is there within seconds; past this something else is wrong.
    store_wait_s: Annotated[float, Field(ge=0, le=86400)] = 60.0

    lease_s: Annotated[float, Field(ge=0.3, le=3600)] = 5.0
    max_run_s: Seconds = 3600.0
    # `docker stop` kills after 10 s; what remains is for leases, sockets and the store.
    drain_s: Annotated[float, Field(ge=0, le=86400)] = 8.0
    retention_s: Seconds = 86400.0
    grace_s: Seconds = 10.0
    seal_after_s: Annotated[float, Field(ge=0, le=10 * 365 * 86400, allow_inf_nan=False)] = 300.0
    # Proxies cut a silent connection after 60 s; every 10 to 15 s is what clients are used to.
    heartbeat_s: Seconds = 12.0
    sse_ids: bool = False

    upstream_url: HttpBase | None = None
    upstream_api: Literal["responses", "chat"] = "responses"
    upstream_api_key: Key | None = None
    upstream_timeout_s: Seconds = 1800.0
    # A long prefill is silence, not death.
    upstream_idle_timeout_s: Seconds = 600.0
    custom_formats: CustomFormats | None = None
    reasoning_history: ReasoningHistory = "none"
    upstreams: tuple[UpstreamTable, ...] = ()

    # A request is stored twice in one call, as it came and as it goes upstream; 30 MiB are the most that fits
    # (`api.bounds`), and the default leaves room for what the gateway adds.
    max_body_bytes: Annotated[int, Field(ge=1, le=30 << 20)] = 24 << 20
    max_response_bytes: Count = 64 << 20
    # Some times the frames of the longest answers; to fold them again takes a successor half a minute.
    max_frames: Count = 500_000
    # Four times the answers: pools of clients hold connections on which nothing is asked.
    max_connections: Count = 4000
    max_in_flight: Count = 1000
    max_in_flight_per_tenant: Count | None = None
    max_open: Count | None = None
    max_open_per_tenant: Count | None = None
    max_rounds: Count = 10

    tool_concurrency: Count = 5
    tool_timeout_s: Seconds = 60.0
    web_search_provider: Literal["searxng", "brave", "tavily"] | None = None
    web_search_url: HttpBase | None = None
    web_search_api_key: Key | None = None
    mcp_allowed_hosts: Annotated[str, AfterValidator(_host_list)] | None = None

    debug_ui: bool = False
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = (
        "INFO"
    )
    otlp_endpoint: HttpBase | None = None
    otlp_headers: Annotated[SecretStr, AfterValidator(_header_list)] | None = None
    trace_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    log_format: Literal["text", "json"] = "text"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The command line, then the environment, then respool.toml; no other source."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, FILE)

    @model_validator(mode="after")
    def _upstream_ids_differ(self) -> Self:
        ids = [table.id for table in self.upstreams]
        if len(set(ids)) < len(ids):
            raise ValueError("two of [[upstreams]] have the same id")
        return self

    @property
    def tenants(self) -> dict[str, str]:
        """Key to tenant."""
        return keys_of(self.api_keys) if self.api_keys else {}

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address that is served."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def store(self) -> str | None:
        """The store's URL; None means the embedded one."""
        return self.redis_url.get_secret_value() if self.redis_url else None

    @property
    def store_shown(self) -> str:
        """The store's URL as it may be printed: scheme, host and port."""
        return store_url.shown(self.store) if self.store else "embedded"

    def secrets(self) -> list[str]:
        """What must never be printed, for the log to blank out."""
        keys = (self.upstream_api_key, self.web_search_api_key)
        found = [*self.tenants, *(key.get_secret_value() for key in keys if key)]
        if self.otlp_headers:
            found += headers_of(self.otlp_headers).values()
        return [*found, *store_url.secrets(self.store or "")]


def load(**given: object) -> Settings:
    """Read the settings; `given` (the command line) comes before every other source."""
    try:
        said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return Settings(**said)
    except ValidationError as error:
        raise SettingsError(
            "; ".join(_sentence(fault, given) for fault in error.errors())
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{FILE}: {error}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{FILE}: not UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{FILE}: {error.strerror}") from None
    except SourceError as error:
        raise SettingsError(" ".join(str(error).split())) from None


def unknown_variables() -> list[str]:
    """Variables that look like settings and are none: most likely a slip of the pen."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    tests = f"{PREFIX}TEST_"
    return sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and not name.startswith(tests) and name not in known
    )


def _sentence(fault: ErrorDetails, given: dict[str, object]) -> str:
    """Where the fault is, as the user wrote it, and what it is."""
    text = fault["msg"].removeprefix("Value error, ")
    text = "no such setting" if fault["type"] == "extra_forbidden" else text
    if not fault["loc"]:
        return f"{FILE}: {text}"
    name, *inner = (str(part) for part in fault["loc"])
    if given.get(name) is not None:
        where = f"--{name.replace('_', '-')}"
    elif f"{PREFIX}{name.upper()}" in os.environ:
        where = f"{PREFIX}{name.upper()}"
    else:
        where = f"{FILE}: {name}"
    return ".".join([where, *inner]) + f": {text[:1].lower()}{text[1:]}"

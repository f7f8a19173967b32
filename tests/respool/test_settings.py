"""Settings: where they come from, and how their faults are told without telling their values."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from respool import store_url
from respool.settings import SettingsError, headers_of, keys_of, load, unknown_variables

SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fault(**given):
    with pytest.raises(SettingsError) as caught:
        load(**given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_any_source_the_defaults_serve_this_machine_only():
    settings = load()
    assert (settings.host, settings.port, settings.store) == ("127.0.0.1", 8080, None)
    assert settings.loopback
    assert settings.tenants == {}


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(monkeypatch):
    Path("respool.toml").write_text("port = 1\nlease_s = 2\nhost = '127.0.0.2'\n")
    monkeypatch.setenv("RESPOOL_LEASE_S", "3")
    monkeypatch.setenv("RESPOOL_PORT", "4")
    settings = load(port=5, host=None)
    assert (settings.port, settings.lease_s, settings.host) == (5, 3.0, "127.0.0.2")


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    monkeypatch.setenv("RESPOOL_API_KEYS", "")
    assert load().tenants == {}


def test_no_dotenv_file_is_read():
    Path(".env").write_text("RESPOOL_PORT=9\n")
    assert load().port == 8080


def test_a_fault_is_named_as_the_user_wrote_it(monkeypatch):
    monkeypatch.setenv("RESPOOL_PORT", "70000")
    assert fault().startswith("RESPOOL_PORT: input should be less than")
    assert fault(port=-1).startswith("--port: ")
    monkeypatch.delenv("RESPOOL_PORT")
    Path("respool.toml").write_text("port = 'x'\n")
    assert fault().startswith("respool.toml: port: ")


def test_all_faults_are_told_at_once(monkeypatch):
    monkeypatch.setenv("RESPOOL_PORT", "x")
    monkeypatch.setenv("RESPOOL_LEASE_S", "0")
    assert "RESPOOL_PORT" in fault()
    assert "RESPOOL_LEASE_S" in fault()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RESPOOL_API_KEYS", f"tenant={SECRET},{SECRET}"),
        ("RESPOOL_API_KEYS", f"a={SECRET},b={SECRET}"),
        ("RESPOOL_UPSTREAM_URL", f"http://user:{SECRET}@model:8000/v1"),
        ("RESPOOL_REDIS_URL", f"postgres://:{SECRET}@db"),
        ("RESPOOL_REDIS_URL", f"redis://:{SECRET}/x@db:6379"),
        ("RESPOOL_UPSTREAM_URL", f"http://model:{SECRET}/v1"),
        ("RESPOOL_PORT", SECRET),
        ("RESPOOL_NAMESPACE", f"{{{SECRET}}}"),
        ("RESPOOL_UPSTREAMS", SECRET),
        ("RESPOOL_OTLP_HEADERS", SECRET),
        ("RESPOOL_OTLP_HEADERS", f"a b={SECRET}"),
        ("RESPOOL_OTLP_HEADERS", f"a={SECRET}\nx"),
        ("RESPOOL_OTLP_ENDPOINT", f"http://user:{SECRET}@collector:4318"),
    ],
)
def test_a_fault_never_shows_the_value(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert SECRET not in fault()


def test_headers_for_the_collector_are_read_and_kept_secret(monkeypatch):
    monkeypatch.setenv("RESPOOL_OTLP_HEADERS", f"x-token={SECRET}, authorization=Basic abc==")
    setting = load().otlp_headers
    assert headers_of(setting) == {"x-token": SECRET, "authorization": "Basic abc=="}
    assert load().secrets() == [SECRET, "Basic abc=="]


def test_a_file_that_is_no_toml_is_one_line():
    Path("respool.toml").write_text("port = \n")
    assert fault().startswith("respool.toml: Invalid value (at line 1")


def test_a_file_that_is_no_text_is_one_line():
    Path("respool.toml").write_bytes(b"host = '\xff'\n")
    assert fault() == "respool.toml: not UTF-8"


def test_a_file_that_cannot_be_read_is_one_line(monkeypatch):
    Path("respool.toml").touch()

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert fault() == "respool.toml: Permission denied"


def test_sentinels_need_the_name_of_their_service():
    url = "redis+sentinel://:pw@a:26379,b:26379/main/0"
    assert load(redis_url=url).store == url
    assert load(redis_url=url).store_shown == "redis+sentinel://a:26379,b:26379"
    assert "must name the sentinels' service" in fault(redis_url="redis+sentinel://a:26379")


def test_an_unknown_setting_in_the_file_is_a_fault():
    Path("respool.toml").write_text("prot = 1\n")
    assert fault() == "respool.toml: prot: no such setting"


def test_an_unknown_variable_is_noticed(monkeypatch):
    monkeypatch.setenv("RESPOOL_PROT", "1")
    monkeypatch.setenv("RESPOOL_TEST_REDIS_URL", "redis://elsewhere")
    monkeypatch.setenv("RESPOOL_PORT", "1")
    assert unknown_variables() == ["RESPOOL_PROT"]


def test_keys_may_be_a_list_or_a_table():
    Path("respool.toml").write_text("[api_keys]\nblue = 'k1'\nred = 'k2'\n")
    assert load().tenants == {"k1": "blue", "k2": "red"}
    Path("respool.toml").write_text("api_keys = 'blue=k1, red=k2=, blue=k3'\n")
    assert load().tenants == {"k1": "blue", "k2=": "red", "k3": "blue"}


def test_upstream_tables_need_different_ids():
    table = "[[upstreams]]\nid = 'a'\nbase_url = 'http://h/v1'\n"
    Path("respool.toml").write_text(table * 2)
    assert fault() == "respool.toml: two of [[upstreams]] have the same id"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("model:8000/v1", "http or https"),
        ("http:///v1", "http or https"),
        ("http://h/v1?x=1", "without a query"),
    ],
)
def test_an_upstream_address_that_cannot_be_one_is_refused(url, words, monkeypatch):
    monkeypatch.setenv("RESPOOL_UPSTREAM_URL", url)
    assert words in fault()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("my.host", False),
    ],
)
def test_loopback_is_told_from_the_rest(host, loopback):
    assert load(host=host).loopback is loopback


def test_a_log_level_may_be_written_either_way(monkeypatch):
    monkeypatch.setenv("RESPOOL_LOG_LEVEL", "debug")
    assert load().log_level == "DEBUG"
    monkeypatch.setenv("RESPOOL_LOG_LEVEL", "loud")
    assert fault().startswith("RESPOOL_LOG_LEVEL: input should be 'DEBUG'")


def test_what_may_be_printed_holds_no_secret(monkeypatch):
    monkeypatch.setenv("RESPOOL_API_KEYS", f"me={SECRET}")
    monkeypatch.setenv("RESPOOL_UPSTREAM_API_KEY", f"{SECRET}-up")
    monkeypatch.setenv("RESPOOL_REDIS_URL", f"redis://me:{SECRET}%2Fstore@db:1/2")
    settings = load()
    assert SECRET not in repr(settings)
    assert settings.store_shown == "redis://db:1"
    assert settings.secrets() == [SECRET, f"{SECRET}-up", f"{SECRET}%2Fstore", f"{SECRET}/store"]
    assert load(redis_url="memory://").store_shown == "memory://"


def test_without_a_store_the_embedded_one_is_shown():
    assert load().store_shown == "embedded"


def test_keys_of_wants_pairs():
    with pytest.raises(ValueError, match="entry 2"):
        keys_of(SecretStr("a=b,,"))


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:12/34{SECRET}@h:6379/0",
        f"redis://u:1#{SECRET}@h:6379/0",
        f"redis://u:1?{SECRET}@h:6379/0",
        f"redis://u:[{SECRET}@h:6379/0",
        f"redis://u:\u2100{SECRET}@h:6379/0",
        f"redis://h/0?pasword={SECRET}",
        f"redis://a:1,b:{SECRET}/0",
        f"redis://h/{SECRET}",
        f"redis://h/0/{SECRET}",
        f"redis://h/0?db={SECRET}",
        f"redis://h:6379/0 {SECRET}",
        f"redis:{SECRET}@h",
        f"REDIS://:{SECRET}@h",
        f"redis+sentinel://:{SECRET}@127.0.0.1:abc/svc",
        f"redis+sentinel://127.0.0.1:{SECRET}/svc",
        f"redis+sentinel://127.0.0.1:1/svc/{SECRET}",
        f"redis+sentinel://127.0.0.1:1,/svc?x={SECRET}",
        f"rediss+sentinel://[::1]:1/{SECRET}",
        f"redis+cluster://:{SECRET}@127.0.0.1:abc",
        f"redis+cluster://127.0.0.1:1/{SECRET}",
        f"redis+cluster://127.0.0.1:1?x={SECRET}",
        f"redis+cluster://:12/34{SECRET}@127.0.0.1:1",
        f"redis+sentinel://h/svc?ssl_ca_certs={SECRET}",
        f"rediss+sentinel://h/svc?sentinel_ssl={SECRET}",
        "redis+cluster://",
        "redis+cluster://h:1,h:70000",
        "unix://",
        "redis://h/0?foo=bar",
        "redis://h/0?decode_responses=true",
        "redis://h/0?ssl_cert_reqs=none",
        "rediss://h/0?ssl_cert_reqs=foo",
        "redis://h/notadb",
    ],
)
def test_a_store_url_that_is_not_understood_is_one_line_without_its_password(url, monkeypatch):
    monkeypatch.setenv("RESPOOL_REDIS_URL", url)
    told = fault()
    assert told.startswith("RESPOOL_REDIS_URL: ")
    assert SECRET not in told
    assert SECRET not in store_url.shown(url)


@pytest.mark.parametrize(
    ("url", "shown", "secrets"),
    [
        (f"redis://h/0?password={SECRET}", "redis://h", [SECRET]),
        (f"redis://h/0?password={SECRET}%2Fx", "redis://h", [f"{SECRET}%2Fx", f"{SECRET}/x"]),
        (f"rediss://u:{SECRET}@[::1]:7/1?ssl_cert_reqs=none", "rediss://[::1]:7", [SECRET]),
        ("redis:///1", "redis://", []),
        (f"unix://u:{SECRET}@/run/v.sock?db=1", "unix://", [SECRET]),
        ("memory://name", "memory://", []),
        (
            f"rediss+sentinel://u:{SECRET}@a,b:26379/svc/3",
            "rediss+sentinel://a,b:26379",
            [SECRET],
        ),
        (
            f"redis+sentinel://u:{SECRET}@a/svc?sentinel_password=watch%2F{SECRET}",
            "redis+sentinel://a",
            [SECRET, f"watch%2F{SECRET}", f"watch/{SECRET}"],
        ),
        (f"redis+cluster://u:{SECRET}@a:1,b", "redis+cluster://a:1,b", [SECRET]),
        (
            f"rediss+cluster://a:1?password={SECRET}&ssl_ca_certs=/ca.pem",
            "rediss+cluster://a:1",
            [SECRET],
        ),
    ],
)
def test_of_a_store_url_only_scheme_hosts_and_ports_are_shown(url, shown, secrets):
    settings = load(redis_url=url)
    assert settings.store_shown == shown
    assert settings.secrets() == secrets


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"{SECRET}\r\nx: y", f" {SECRET}", f"{SECRET}é"])
def test_a_key_that_no_header_can_hold_is_refused_at_the_start(key, monkeypatch):
    for name in ("RESPOOL_UPSTREAM_API_KEY", "RESPOOL_WEB_SEARCH_API_KEY"):
        monkeypatch.setenv(name, key)
        assert f"{name}: holds a blank, a line end" in fault()
        assert SECRET not in fault()
    monkeypatch.setenv("RESPOOL_API_KEYS", f"a=b,c={SECRET}\n{SECRET}")
    assert "RESPOOL_API_KEYS: entry 2 holds a blank" in fault()


@pytest.mark.parametrize(
    "url", ["http://h/v1\n", "http://h /v1", "http://[/v1", "http://\u2100/v1"]
)
def test_an_upstream_address_with_a_line_end_is_refused(url, monkeypatch):
    monkeypatch.setenv("RESPOOL_UPSTREAM_URL", url)
    assert fault().startswith("RESPOOL_UPSTREAM_URL: ")


def test_origins_are_as_browsers_send_them():
    assert load(cors_origins="https://App.example, http://localhost:3000").cors_origins == (
        "https://app.example,http://localhost:3000"
    )
    assert load(cors_origins=" * ").cors_origins == "*"
    for wrong in ("app.example", "https://app.example/", "https://a,", "*,https://a", "ftp://a"):
        assert "is not of the form https://host" in fault(cors_origins=wrong)

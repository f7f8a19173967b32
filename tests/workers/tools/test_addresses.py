"""Where a tool server may live: the table of what an attacker would try."""

import asyncio
import socket
from ipaddress import ip_address

import pytest

from workers.tools.addresses import (
    REFUSED_TEXT,
    AddressRefused,
    AllowedHosts,
    Origin,
    addresses_of,
    is_public,
    origin_of,
)

NOBODY = AllowedHosts()

REFUSED = [
    "http://example.com/mcp",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://0/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://100.100.100.200/latest",
    "https://169.254.169.254/latest/meta-data",
    "https://168.63.129.16/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://198.18.0.1/",
    "https://[::]/",
    "https://[::1]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b::10.0.0.1]/",
    "https://[64:ff9b:1::1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:1::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]/",
    "https://[::1/",
    "https://user:pw@example.com/",
    "https://user@example.com/",
    "https://example.com@127.0.0.1/",
    "https://example.com:443@127.0.0.1/",
    "https://127.0.0.1\\@example.com/",
    "https://example.com\\.evil.test/",
    "https://exa mple.com/",
    "https://example.com/a b",
    "https://example.com\n/",
    "https://ex%61mple.com/",
    "https://exämple.com/",
    "https://①②⑦.0.0.1/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:x/",
    "https:///mcp",
    "https://",
    "https:example.com",
    "//example.com/",
    "example.com",
    "",
    "file:///etc/passwd",
    "gopher://example.com:70/_x",
    "ftp://example.com/",
    "unix:///var/run/docker.sock",
    "data:text/plain,x",
    "ws://example.com/",
    "https://" + "a" * 3000 + ".com/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_may_lead_inside_is_refused_and_every_refusal_is_the_same(url):
    with pytest.raises(AddressRefused) as refused:
        origin_of(url, NOBODY)
    assert refused.value.message == REFUSED_TEXT
    assert refused.value.error == {"type": "http_error", "code": 403, "message": REFUSED_TEXT}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost.", "LOCALHOST", "no-such-host.invalid", "a..b", "-.invalid"]
)
async def test_a_name_is_refused_by_what_it_resolves_to_and_so_is_one_that_does_not(host):
    origin = origin_of(f"https://{host}/", NOBODY)
    with pytest.raises(AddressRefused) as refused:
        await addresses_of(origin)
    assert refused.value.message == REFUSED_TEXT


@pytest.mark.parametrize(
    ("answers", "fine"),
    [
        (["93.184.216.34"], True),
        (["93.184.216.34", "93.184.216.34", "2606:2800:220:1::1"], True),
        (["93.184.216.34", "10.0.0.1"], False),
        (["fe80::1%2"], False),
        (["::1"], False),
        ([], False),
    ],
)
async def test_all_addresses_of_a_name_must_be_public(monkeypatch, answers, fine):
    async def getaddrinfo(*_, **given):
        return [(socket.AF_INET, given["type"], 6, "", (answer, 443)) for answer in answers]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    origin = Origin("https", "example.com", 443, trusted=False)
    if fine:
        assert await addresses_of(origin) == list(dict.fromkeys(answers))
    else:
        with pytest.raises(AddressRefused):
            await addresses_of(origin)


def test_a_public_https_url_is_fine():
    assert origin_of("https://Example.COM./mcp?x=1", NOBODY) == Origin(
        "https", "example.com", 443, trusted=False
    )
    assert origin_of("https://[2606:2800:220:1::1]:8443/", NOBODY).port == 8443
    assert origin_of("https://8.8.8.8/", NOBODY).host == "8.8.8.8"
    assert origin_of("https://127.0.0.1.example.com/", NOBODY).host == "127.0.0.1.example.com"


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses_are_public(text):
    assert is_public(ip_address(text))


def test_the_installation_may_allow_a_host_or_a_host_at_one_port():
    allowed = AllowedHosts(" 127.0.0.1:9000, tools.internal ,[::1]:81,fd00::1,")
    assert origin_of("http://127.0.0.1:9000/mcp", allowed).trusted
    assert origin_of("http://tools.internal/", allowed) == Origin(
        "http", "tools.internal", 80, trusted=True
    )
    assert origin_of("https://Tools.Internal:8443/", allowed).trusted
    assert origin_of("http://[0:0::1]:81/", allowed).trusted
    assert origin_of("https://[fd00::1]:5/", allowed).trusted
    for url in (
        "http://127.0.0.1:9001/",
        "http://127.0.0.1/",
        "http://0177.0.0.1:9000/",
        "http://2130706433:9000/",
        "http://[::ffff:127.0.0.1]:9000/",
        "http://user@127.0.0.1:9000/",
        "http://sub.tools.internal/",
        "http://[::1]:82/",
    ):
        with pytest.raises(AddressRefused):
            origin_of(url, allowed)


async def test_an_allowed_host_may_be_inside():
    origin = origin_of("http://localhost:9000/", AllowedHosts("localhost"))
    assert "127.0.0.1" in await addresses_of(origin)


@pytest.mark.parametrize("entry", ["http://a", "a/b", "user@a", "a:b", "a b", "[::1", "a:123456"])
def test_an_entry_that_is_no_host_is_told(entry):
    with pytest.raises(ValueError, match="form host or host:port"):
        AllowedHosts(f"ok,{entry}")

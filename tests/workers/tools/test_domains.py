import pytest

from workers.tools.domains import domain_of, domains_of, under


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Example.COM.", "example.com"),
        ("bücher.de", "xn--bcher-kva.de"),
        ("B\u00dcCHER.de", "xn--bcher-kva.de"),
        ("bu\u0308cher。de", "xn--bcher-kva.de"),
        ("b%C3%BCcher.de", "xn--bcher-kva.de"),
        ("straße.de", "xn--strae-oqa.de"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("пример.рф", "xn--e1afmkfd.xn--p1ai"),
        ("\uff45xample\uff0ecom", "example.com"),
        ("a_b.test", "a_b.test"),
        ("192.0.2.1", "192.0.2.1"),
        ("de", "de"),
    ],
)
def test_a_host_has_one_form(host, name):
    assert domain_of(host) == name
    assert domain_of(name) == name


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "a..b", "a b", "-a.test", "a-.test", "☃.test", "a.test OR site:b", "::1", "a/b"),
        *(
            "x" * 64 + ".test",
            "ü" * 60,
            ".".join(["abcdefg"] * 40),
            "a\u200db",
            "\ud800.test",
            "a\nb",
        ),
    ],
)
def test_what_is_no_host_has_none(host):
    assert domain_of(host) == ""


def test_a_filter_names_domains_in_many_ways():
    given = [
        "https://www.OK.test/path?q",
        "ok.test:8443",
        "*.ok.test",
        "http://me:pw@Bücher.de#x",
        " ok.test ",
        "www.de",
        "no domain",
        5,
        "",
    ]
    assert domains_of(given) == ("ok.test", "xn--bcher-kva.de", "www.de")
    assert domains_of("ok.test") == domains_of(None) == ()


def test_a_domain_holds_itself_and_what_is_in_it():
    assert under("ok.test", "ok.test")
    assert under("a.ok.test", "ok.test")
    assert not under("notok.test", "ok.test")

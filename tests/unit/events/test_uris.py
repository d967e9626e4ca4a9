"""URI references as RFC 3986 has them: what may be a source, and what may not."""

from ipaddress import IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from surefoot.events.text import is_uri, is_uri_reference
from tests.support.corpus import each_of


@each_of(
    "text",
    [
        # examples of RFC 3986, section 1.1.2
        "ftp://ftp.is.co.za/rfc/rfc1808.txt",
        "ldap://[2001:db8::7]/c=GB?objectClass?one",
        "mailto:John.Doe@example.com",
        "news:comp.infosystems.www.servers.unix",
        "tel:+1-816-555-1212",
        "telnet://192.0.2.16:80/",
        "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
        "file:///etc/hosts",
        "a:",
        "a://",
        "a:////",
        "https://user:pass:word@tests:8080/",
        "https://@tests:/",
        "https://:80",
        "https://%C3%A4.example/%20?a/?b#c/?d",
        "https://[::]:80/",
        "https://user@[::ffff:192.0.2.1]",
        "https://[1:2:3:4:5:6:7::]/",
        "https://[v1F.a:b$]/",
        "https://[V7.~]",
    ],
)
def test_a_uri_is_a_reference_too(text: str) -> None:
    assert is_uri(text)
    assert is_uri_reference(text)


@each_of(
    "text",
    ["/", "//", "///", "////", "/a//b", "//a:80/b:c", "//[::1]", "a/b:c", "./a:b", "?a", "#a", "a@b", "//a?b", "//?#"],
)
def test_a_relative_reference_is_no_uri(text: str) -> None:
    assert is_uri_reference(text)
    assert not is_uri(text)


@each_of(
    "text",
    [
        "",
        ":a",
        "1a:b",
        "a_b:c",
        "/ä",
        "/a b",
        "/a\n",
        "//a\n",
        "/%2",
        "[::1]",
        "/[::1]",
        "a#b#c",
        "https://a:port/",
        "https://a:80:81/",
        "https://a:8o/",
        "https://[::1/",
        "https://::1]/",
        "https://[::1]]/",
        "https://[::1]80/",
        "https://[]/",
        "https://[::1%25eth0]/",
        "https://[192.0.2.1]/",
        "https://[::192.0.2.256]/",
        "https://[::192.0.02.1]/",
        "https://[12345::]/",
        "https://[1::2::3]/",
        "https://[1:2:3:4:5:6:7]/",
        "https://[1:2:3:4:5:6:7:8::]/",
        "https://[v.a]/",
        "https://[v1.]/",
        "https://[w1.a]/",
        "//a@b@c",
        "//a[b]/",
    ],
)
def test_anything_else_is_neither(text: str) -> None:
    assert not is_uri_reference(text)
    assert not is_uri(text)


@given(st.ip_addresses(v=6))
def test_every_address_may_be_a_host(address: IPv6Address) -> None:
    assert is_uri(f"https://[{address.compressed}]:80/")
    assert is_uri_reference(f"//[{address.exploded}]")

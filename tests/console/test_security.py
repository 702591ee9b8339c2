"""Who may ask: every refusal, one-time links, sessions that end, bounds."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.datastructures import Headers

from oncelog.console.security import SESSION_S, SESSIONS_MAX, STREAMS_PER_SESSION_MAX, Gate, hosts_of, is_loopback

HOSTS = hosts_of("127.0.0.1", 8180)


def refusal(
    method: str = "GET",
    path: str = "/api/v1/hello",
    client: str = "127.0.0.1",
    gate: Gate | None = None,
    **headers: str,
) -> Any:
    given = {"host": "127.0.0.1:8180"} | {name.replace("_", "-"): value for name, value in headers.items()}
    found = (gate or Gate(HOSTS)).refusal(method, Headers(given), client, path)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, None),
        ({"host": "localhost:8180"}, None),
        ({"host": "[::1]:8180"}, None),
        ({"host": "evil.example:8180"}, 421),  # DNS rebinding
        ({"host": "127.0.0.1:9999"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://127.0.0.1:8180"}, None),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
    ],
)
def test_hosts_and_origins(headers: dict[str, str], status: int | None) -> None:
    assert refusal(**headers) == status


def test_a_post_needs_json_and_our_header() -> None:
    """A form of another site can send neither."""
    assert refusal("POST") == 415
    assert refusal("POST", content_type="application/json") == 415
    assert refusal("POST", content_type="text/plain", x_oncelog_console="1") == 415
    assert refusal("POST", content_type="application/json", x_oncelog_console="1") is None
    assert refusal("DELETE") == 405


def test_a_link_opens_one_session_and_only_the_newest_counts() -> None:
    used: list[int] = []
    gate = Gate(HOSTS, on_link_used=lambda: used.append(1))
    old, token = gate.new_link_token(), gate.new_link_token()
    assert gate.new_session("guess") is None
    assert gate.new_session(old) is None
    assert gate.new_session("ä") is None
    secret = gate.new_session(token)
    assert secret is not None
    assert gate.new_session(token) is None, "a link in a history opens nothing"
    assert used == [1]
    assert gate.session_of({gate.cookie: secret}, None) is not None
    assert gate.session_of({gate.cookie: "guess"}, None) is None
    assert gate.session_of({}, None) is None


def test_a_session_ends() -> None:
    now_s = 0.0
    gate = Gate(HOSTS, clock=lambda: now_s)
    secret = gate.new_session(gate.new_link_token()) or ""
    now_s = SESSION_S
    assert gate.session_of({gate.cookie: secret}, None) is None


def test_sessions_and_streams_are_bounded() -> None:
    gate = Gate(HOSTS)
    secrets = [gate.new_session(gate.new_link_token()) or "" for _ in range(SESSIONS_MAX + 1)]
    assert gate.session_of({gate.cookie: secrets[0]}, None) is None
    session = gate.session_of({gate.cookie: secrets[-1]}, None)
    assert session is not None
    session.streams = STREAMS_PER_SESSION_MAX - 1
    assert gate.may_stream(session)
    session.streams += 1
    assert not gate.may_stream(session)


def test_only_a_trusted_proxy_says_who_it_is() -> None:
    gate = Gate(HOSTS, user_header="x-forwarded-user", trusted_proxies=frozenset({"10.0.0.5"}))
    assert refusal(gate=gate, client="10.0.0.6", x_forwarded_user="ann") == 403
    assert refusal(gate=gate, client="10.0.0.5") == 403
    assert refusal(gate=gate, client="10.0.0.5", x_forwarded_user="ann") is None
    assert gate.session_of({}, gate.user_of(Headers({"x-forwarded-user": "ann"}))) is not None


def headers_of(*names: str) -> Headers:
    raw = [(b"host", b"127.0.0.1:8180"), *((b"x-forwarded-user", each.encode()) for each in names)]
    return Headers(raw=raw)


@pytest.mark.parametrize(
    ("client", "names", "says"),
    [
        ("10.0.0.5", ("ann",), None),
        ("::ffff:10.0.0.5", ("ann",), None),  # IPv4 on a socket of IPv6
        ("2001:db8:0:0::1", ("ann",), None),
        ("10.0.0.6", ("ann",), "come by the proxy"),
        ("::ffff:10.0.0.6", ("ann",), "come by the proxy"),
        ("127.0.0.1", ("ann",), "come by the proxy"),
        (None, ("ann",), "come by the proxy"),
        ("10.0.0.5", (), "come by the proxy"),
        ("10.0.0.5", ("",), "come by the proxy"),
        ("10.0.0.5", ("ann", "bob"), "x-forwarded-user 2 times: it has to replace what a client sends"),
    ],
)
def test_who_says_who_it_is(client: str | None, names: tuple[str, ...], says: str | None) -> None:
    """A proxy that adds its header to that of the client would let the client say it."""
    gate = Gate(HOSTS, user_header="x-forwarded-user", trusted_proxies=frozenset({"10.0.0.5", "2001:db8::1"}))
    found = gate.refusal("GET", headers_of(*names), client, "/api/v1/hello")
    assert (found is None) if says is None else (found is not None and found[0] == 403 and says in found[1])


def test_who_is_an_operator() -> None:
    named = frozenset({"ann", "J\u00f6rg", "CORP\\xf6"})
    gate = Gate(HOSTS, user_header="x-forwarded-user", trusted_proxies=frozenset({"10.0.0.5"}), operators=named)
    allowed = ("ann", "J\u00f6rg", "CORP\\xf6")
    assert [gate.may_act(headers_of(each)) for each in allowed] == [True] * 3
    assert gate.user_of(headers_of("J\u00f6rg")) == "J\u00f6rg"
    others = ("bob", "Ann", "ann, bob", "ann ", "", "J\u00f6rg\u0308")
    assert [gate.may_act(headers_of(each)) for each in others] == [False] * 6
    latin = Headers(raw=[(b"x-forwarded-user", b"CORP\xf6")])
    assert (gate.user_of(latin), gate.may_act(latin)) == (r"CORP\xf6", False), "shown alike, and another"
    assert not gate.may_act(Headers({"x-other-user": "ann"}))
    assert Gate(HOSTS).may_act(Headers({})), "without roles whoever may look may act"
    undecodable = frozenset({"\udcf6"})  # as the command line gives a byte that is no UTF-8
    gate = Gate(HOSTS, user_header="x-forwarded-user", operators=undecodable)
    assert gate.may_act(Headers(raw=[(b"x-forwarded-user", b"\xf6")]))


def test_known_hosts() -> None:
    assert hosts_of("10.1.2.3", 80) == {"10.1.2.3:80"}
    assert "kafka.example" in hosts_of("10.1.2.3", 80, ("Kafka.example",))
    assert "kafka.example:8443" in hosts_of("10.1.2.3", 80, ("kafka.example:8443",))
    assert [is_loopback(each) for each in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "name")] == [
        *(True, True, True),
        *(False, False, False),
    ]

"""`oncelog console`: where it listens, and for whom."""

from __future__ import annotations

import socket

import pytest

from oncelog.cli.commands.console import server_config
from tests.cli.world import oncelog

SCRAM = ("-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=SCRAM-SHA-512")
BY_PROXY = ("--auth", "header:X-User", "--trusted-proxy", "10.0.0.5")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "0.0.0.0:0"), "say who may with --auth header:NAME"),
        (("--listen", "10.0.0.1:0"), "others reach 10.0.0.1"),
        (("--listen", "8180"), "write HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "write HOST:PORT"),
        (("--listen", "127.0.0.1:\u00b2"), "write HOST:PORT"),
        (("--listen", f"127.0.0.1:{'9' * 5000}"), "write HOST:PORT"),
        (("--auth", "X-User", "--trusted-proxy", "10.0.0.5"), "write header:NAME"),
        (("--auth", "header:X-User"), "say with --trusted-proxy whose"),
        (("--trusted-proxy", "10.0.0.5"), "needs --auth"),
        (("--allow-everything",), "No such option"),
        (("--auth", "header:X-User", "--trusted-proxy", "proxy.example"), "write an IP address"),
        (("--auth", "header:X User", "--trusted-proxy", "10.0.0.5"), "write header:NAME"),
        (("--mask", ""), "names no field"),
        (("--mask", " , "), "names no field"),
        (("--public-name", "http://console.example/"), "write HOST or HOST:PORT"),
        (("--public-name", ""), "write HOST or HOST:PORT"),
        (("--allow-writes", "--i-know-this-is-open"), "exclude each other"),
        (("--operator", "ann", "--allow-writes"), "--operator needs --auth"),
        (("--operator", "ann", *BY_PROXY), "--operator needs --allow-writes"),
        (("--operator", "", "--allow-writes", *BY_PROXY), "write the name as the proxy's header has it"),
        (("--operator", "ann ", "--allow-writes", *BY_PROXY), "write the name as the proxy's header has it"),
        (("--login",), "--login needs security.protocol=SASL_SSL"),
        (("--login", *SCRAM, "-X", "sasl.username=x"), "--login and sasl.username exclude each other"),
        (("--login", *SCRAM, *BY_PROXY), "--login and --auth exclude each other"),
        (("--login", *SCRAM, "--i-know-this-is-open"), "--login and --i-know-this-is-open exclude each other"),
        (("--login", *SCRAM, "--listen", "0.0.0.0:0"), "--login listens on 127.0.0.1 only"),
        (("--database", "nope://x"), "--database: not a database's URL: nothing here knows 'nope'"),
        (("--database", "orders.db"), "--database: not a database's URL: 'orders.db' (expected e.g. sqlite:///"),
        (("--database", "postgresql://app@db:abc/shop"), "--database: not a database's URL: Port could not be cast"),
        (("--database", "postgresql://[::1"), "--database: not a database's URL: Invalid IPv6 URL"),
        (("--database", "mysql+mysqlconnector://app@db/shop"), "--database: the driver of mysql+mysqlconnector is not"),
        (("--database", "zookeeper://"), "--database: not a ZooKeeper's URL"),
    ],
)
def test_what_would_be_open_or_makes_no_sense_is_refused(arguments: tuple[str, ...], says: str) -> None:
    result = oncelog("console", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        result = oncelog("console", "--listen", f"127.0.0.1:{other.getsockname()[1]}")
    assert result.exit_code == 1
    assert "cannot listen on 127.0.0.1" in result.stderr
    assert "choose another with --listen" in result.stderr


@pytest.mark.parametrize(
    ("trusted", "says_it_is_from", "status"), [("10.0.0.5", "10.0.0.5", 403), ("127.0.0.1", "10.0.0.9", 200)]
)
def test_who_connects_is_no_header(trusted: str, says_it_is_from: str, status: int) -> None:
    """The HTTP server believed X-Forwarded-For of whoever is on this machine: anybody there was the trusted proxy, and a
    proxy on this machine was none."""
    starlette = pytest.importorskip("starlette.testclient", reason="the extra oncelog[console]")
    from oncelog.cli.command import Settings
    from oncelog.console.routes import application
    from oncelog.console.security import Gate

    gate = Gate(None, user_header="x-user", trusted_proxies=frozenset({trusted}))
    config = server_config(application(Settings(bootstrap_servers="127.0.0.1:1"), gate))
    config.load()
    client = starlette.TestClient(config.loaded_app, base_url="http://console", client=("127.0.0.1", 50_000))
    headers = {"x-user": "root", "x-forwarded-for": says_it_is_from, "x-forwarded-proto": "https"}
    assert client.get("/api/v1/plans", headers=headers).status_code == status

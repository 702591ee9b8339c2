"""The text of `bootstrap.servers`, as Apache Kafka's clients read it, and what is wrong with one."""

from __future__ import annotations

import re

# PLAINTEXT://HOST:PORT is HOST:PORT (what it speaks is security_protocol's), and a host has no other characters.
_SCHEME, _HOST = re.compile(r"[0-9A-Za-z\-%._]*://"), re.compile(r"\[?[0-9A-Za-z\-%._:]+\]?")
EXPECTED = "expected HOST:PORT[,HOST:PORT]"


def addresses_of(text: str) -> list[tuple[str, int]]:
    """Host and port of each. Raises ValueError that says which is none, and why."""
    if not text.strip():
        raise ValueError(EXPECTED)
    return [_address(part.strip()) for part in text.split(",")]


def _address(part: str) -> tuple[str, int]:
    if not part:
        raise ValueError(f"a server is empty, is there a comma too many? {EXPECTED}")
    name, colon, port = _SCHEME.sub("", part, count=1).rpartition(":")
    if not (colon and _HOST.fullmatch(name)) or port.endswith("]"):
        raise ValueError(f"{part!r:.80}: {EXPECTED}")
    host = name.strip("[]")
    if ":" in host and not _is_ipv6(host):  # without brackets, the port left out: its last group would be taken for one
        raise ValueError(f"{part!r:.80}: an address of IPv6 stands in brackets, [::1]:9092; {EXPECTED}")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ValueError(f"{part!r:.80}: a port is a number from 1 to 65535; {EXPECTED}")
    return host, int(port)


def _is_ipv6(host: str) -> bool:
    import ipaddress

    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True

"""Certificates of a configuration: expired, soon expiring, weak, or for other names than clients ask for."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from oncelog.cli.durations import duration_text, moment_text
from oncelog.cli.finding import FAILURE, OK, WARNING, Finding
from oncelog.errors import ConfigurationError
from oncelog.host.certificate_authority import NOTHING_WITHOUT, Described, described

SOON_MS = 30 * 86_400_000
RSA_BITS_MIN, CURVE_BITS_MIN = 2048, 224
BROKEN_HASHES = ("md5", "sha1")
RENEW = "oncelog secure DIRECTORY --renew, where that made it; else ask who signs it"


def examine_certificates(
    check: str, where: str, pem: str, now_ms: int, *, hosts: Sequence[str] = (), is_own: bool = False
) -> Iterator[Finding]:
    """Of every certificate in a PEM text. `is_own`: the first one is shown to others, who ask for one of `hosts`."""
    try:
        found = described(pem)
    except ConfigurationError as error:
        is_missing = str(error) == NOTHING_WITHOUT
        advice = (
            "pip install 'oncelog[security]' to have certificates looked at" if is_missing else "put a whole one there"
        )
        yield Finding(check, WARNING if is_missing else FAILURE, f"{where}: {error}", advice)
        return
    for number, each in enumerate(found):
        is_shown = is_own and number == 0
        problems = list(_problems(check, f"{where} ({each.common_name or 'no name'})", each, now_ms))
        if is_shown:
            problems += _wrong_names(check, where, each, hosts)
        yield from problems
        if not problems:
            names = f" for {', '.join(each.names)}" if is_shown else ""
            holds = f"holds until {moment_text(each.ends_ms)}, {each.key_type} {each.key_bits}"
            yield Finding(check, OK, f"{where} ({each.common_name or 'no name'}){names} {holds}")


def _problems(check: str, where: str, each: Described, now_ms: int) -> Iterator[Finding]:
    if each.ends_ms <= now_ms:
        yield Finding(check, FAILURE, f"{where} has expired, {moment_text(each.ends_ms)}", RENEW)
    elif each.begins_ms > now_ms:
        advice = "set the clock, or take one that holds already"
        yield Finding(check, FAILURE, f"{where} does not hold before {moment_text(each.begins_ms)}", advice)
    elif each.ends_ms - now_ms < SOON_MS:
        yield Finding(check, WARNING, f"{where} expires in {duration_text(each.ends_ms - now_ms)}", RENEW)
    least = {"RSA": RSA_BITS_MIN, "DSA": RSA_BITS_MIN, "EC": CURVE_BITS_MIN}.get(each.key_type, 0)
    if each.key_bits < least:
        what = f"{where} has a weak key: {each.key_type} of {each.key_bits} bits"
        yield Finding(check, FAILURE, what, f"a key of {least} bits or more, or on the curve P-256")
    if each.hash_name in BROKEN_HASHES:
        what = f"{where} is signed with {each.hash_name.upper()}, which can be forged"
        yield Finding(check, FAILURE, what, "have it signed with SHA-256")


def _wrong_names(check: str, where: str, own: Described, hosts: Sequence[str]) -> Iterator[Finding]:
    missing = [host for host in hosts if not any(_is_for(name, host) for name in own.names)]
    if missing:
        named = ", ".join(own.names) or "nobody"
        what = f"{where} is for {named}, and clients are told {', '.join(missing)}: they will refuse it"
        yield Finding(check, WARNING, what, "a certificate with that name, or another advertised.listeners")


def _is_for(name: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        pass
    if name.startswith("*."):
        return host.partition(".")[2].lower() == name[2:].lower()
    return name.lower() == host.lower()

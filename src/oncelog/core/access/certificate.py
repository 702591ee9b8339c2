"""A certificate's subject as Java writes it (RFC 2253), since mapping rules depend on each of its bytes, and
from when to when it holds.

Read from the certificate's own bytes (DER), most specific part first. Known types are CN C L ST O OU STREET DC UID; any
other is `OID=#` and its value in hex. Escaped inside values: `, + " \\ < > ; = #`, and blanks at the ends.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator

NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
NAME_BYTES_MAX = 1_024

_INTEGER, _OID, _UTF8, _PRINTABLE, _T61, _IA5, _UNIVERSAL, _BMP = 2, 6, 12, 19, 20, 22, 28, 30
_SEQUENCE, _SET, _VERSION, _UTC_TIME = 0x30, 0x31, 0xA0, 23
UNREADABLE = "the certificate cannot be read"
_CODECS = {
    _UTF8: "utf-8",
    _PRINTABLE: "ascii",
    _T61: "latin-1",
    _IA5: "ascii",
    _UNIVERSAL: "utf-32-be",
    _BMP: "utf-16-be",
}
_ESCAPED = frozenset(',+"\\<>;=#')


class CertificateInvalid(ValueError):
    """A certificate that cannot be read, or whose subject is too long."""


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises CertificateInvalid."""
    try:
        _, subject = _validity_and_subject(certificate)
        if len(subject) > NAME_BYTES_MAX:
            raise CertificateInvalid(f"a subject of {len(subject)} bytes is longer than {NAME_BYTES_MAX}")
        return ",".join(reversed([_relative(part) for part in _elements(subject, _SET)]))
    except (IndexError, UnicodeDecodeError) as error:
        raise CertificateInvalid(UNREADABLE) from error


def validity_of(certificate: bytes) -> tuple[int, int]:
    """From when to when a certificate in DER holds, in seconds of the wall's clock. Raises CertificateInvalid."""
    try:
        validity, _ = _validity_and_subject(certificate)
        tag, first, at = _element(validity, 0)
        after_tag, last, _ = _element(validity, at)
        return _time(tag, first), _time(after_tag, last)
    except (IndexError, ValueError) as error:
        raise CertificateInvalid(UNREADABLE) from error


def _validity_and_subject(certificate: bytes) -> tuple[bytes, bytes]:
    _, whole, _ = _element(certificate, 0, _SEQUENCE)
    _, fields, _ = _element(whole, 0, _SEQUENCE)
    tag, _, after = _element(fields, 0)
    at = after if tag == _VERSION else 0
    for _ in range(3):  # serial number, signature's algorithm, issuer
        _, _, at = _element(fields, at)
    _, validity, at = _element(fields, at, _SEQUENCE)
    _, subject, _ = _element(fields, at, _SEQUENCE)
    return validity, subject


def _time(tag: int, value: bytes) -> int:
    text = value.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year (RFC 5280)
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    if len(text) != 15 or text[-1] != "Z":
        raise CertificateInvalid(UNREADABLE)
    year, rest = int(text[:4]), [int(text[at : at + 2]) for at in range(4, 14, 2)]
    return calendar.timegm((year, *rest, 0, 0, 0))


def _relative(part: bytes) -> str:
    return "+".join(_attribute(pair) for pair in _elements(part, _SEQUENCE))


def _attribute(pair: bytes) -> str:
    _, oid, at = _element(pair, 0, _OID)
    tag, value, end = _element(pair, at)
    dotted = _dotted(oid)
    name, codec = NAMES.get(dotted), _CODECS.get(tag)
    if name is None or codec is None:
        return f"{name or dotted}=#{pair[at:end].hex()}"
    return f"{name}={_escaped(value.decode(codec))}"


def _escaped(text: str) -> str:
    body = text.strip(" ")
    if not body:
        return "\\ " * len(text)
    head, tail = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    inside = "".join(f"\\{letter}" if letter in _ESCAPED else letter for letter in body)
    return "\\ " * head + inside + "\\ " * tail


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if number > 1 << 64:
            raise CertificateInvalid("an object identifier is too large")
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _elements(data: bytes, wanted: int) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        _, inside, at = _element(data, at, wanted)
        yield inside


def _element(data: bytes, at: int, wanted: int | None = None) -> tuple[int, bytes, int]:
    """An element's tag, its content, and where the next one begins."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4:
            raise CertificateInvalid(UNREADABLE)
        data[start + count - 1]  # raises IndexError
        length, start = int.from_bytes(data[start : start + count], "big"), start + count
    if start + length > len(data) or (wanted is not None and tag != wanted):
        raise CertificateInvalid(UNREADABLE)
    return tag, data[start : start + length], start + length

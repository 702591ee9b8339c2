"""Subjects as Java's X500Principal writes them: the expected texts are Java's own, from certificates made alike."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.access.certificate import CertificateInvalid, subject_of, validity_of
from oncelog.host.certificate_authority import Authority

CN, ORG, OU, C, L, ST = "2.5.4.3", "2.5.4.10", "2.5.4.11", "2.5.4.6", "2.5.4.7", "2.5.4.8"
STREET, DC, UID = "2.5.4.9", "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1"
EMAIL, SERIAL = "1.2.840.113549.1.9.1", "2.5.4.5"
AUTHORITY = Authority(days=(-1, 41 * 365))
GOOD = ssl.PEM_cert_to_DER_cert(AUTHORITY.sign("alice").chain)


def der(pairs, **options):
    return ssl.PEM_cert_to_DER_cert(AUTHORITY.sign(pairs, **options).chain)


@pytest.mark.parametrize(
    ("pairs", "java"),
    [
        ("alice", "CN=alice"),
        (
            [(C, "DE"), (ST, "B y"), (L, "Köln"), (ORG, "A, B + C"), (OU, 'q"u\\o<t>e;d=#x'), (CN, " lead and trail ")],
            'CN=\\ lead and trail\\ ,OU=q\\"u\\\\o\\<t\\>e\\;d\\=\\#x,O=A\\, B \\+ C,L=Köln,ST=B y,C=DE',
        ),
        (
            [(DC, "com"), (DC, "example"), (UID, "u1"), (STREET, "Main 1"), (CN, "x")],
            "CN=x,STREET=Main 1,UID=u1,DC=example,DC=com",
        ),
        ([(EMAIL, "a@b.c"), (CN, "#hash")], "CN=\\#hash,1.2.840.113549.1.9.1=#16056140622e63"),
        ([(SERIAL, "123"), (CN, "a\nb")], "CN=a\nb,2.5.4.5=#1303313233"),
        ([(CN, "日本 \u202e")], "CN=日本 \u202e"),
        ([(CN, "a  b"), (ORG, "  ")], "O=\\ \\ ,CN=a  b"),
        (
            [("1.2.3.4.5", "odd"), ("2.999.3", "more"), (CN, "x#y")],
            "CN=x\\#y,2.999.3=#0c046d6f7265,1.2.3.4.5=#0c036f6464",
        ),
    ],
)
def test_subjects(pairs, java):
    assert subject_of(der(pairs)) == java


def test_a_subject_is_bounded():
    with pytest.raises(CertificateInvalid, match="longer than 1024"):
        subject_of(der([(OU, "x" * 60)] * 20))


def test_from_when_to_when():
    begins_s, ends_s = validity_of(der("a", days=(-2, 5)))
    assert ends_s - begins_s == 7 * 86_400


def test_dates_of_both_forms():
    begins_s, ends_s = validity_of(der("a", days=(0, 40 * 365)))  # beyond 2049: GeneralizedTime
    assert ends_s - begins_s == 40 * 365 * 86_400


@given(st.data())
def test_whatever_bytes_are_a_certificate_or_refused(data):
    good = GOOD
    at = data.draw(st.integers(0, len(good)))
    bad = data.draw(st.sampled_from([good[:at], good[:at] + data.draw(st.binary(max_size=4)) + good[at + 4 :]]))
    for read in (subject_of, validity_of):
        try:
            read(bad)
        except CertificateInvalid:
            continue

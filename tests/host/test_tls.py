"""TLS contexts from PEM as people paste it."""

from __future__ import annotations

import pytest

from oncelog.host.certificate_authority import Authority
from oncelog.host.tls import TlsIdentity, TlsInvalid, TlsSettings, server_context

KEY, CERTIFICATE = "PRIVATE KEY", "CERTIFICATE"


@pytest.fixture(scope="module")
def pem() -> str:
    return Authority("a").sign("b", ["b"], usage="server").pem


def block(pem: str, kind: str) -> str:
    begins, ends = pem.index(f"-----BEGIN {kind}-----"), f"-----END {kind}-----"
    return pem[begins : pem.index(ends) + len(ends)]


@pytest.mark.parametrize("between", [" ", "", "\t", "  "])
def test_a_block_on_one_line_is_read(pem: str, between: str) -> None:
    """As `ssl.keystore.certificate.chain` stands in a properties file, written with blanks where lines ended."""
    key, chain = (block(pem, kind).replace("\n", between) for kind in (KEY, CERTIFICATE))
    server_context(TlsSettings(identity=TlsIdentity(f"{chain} {chain}", key, name="here")))


@pytest.mark.parametrize("damage", ["-----END", "M"])
def test_a_damaged_line_is_told(pem: str, damage: str) -> None:
    key, chain = (block(pem, kind).replace("\n", " ") for kind in (KEY, CERTIFICATE))
    with pytest.raises(TlsInvalid, match="here: no key with its certificate in PEM"):
        server_context(TlsSettings(identity=TlsIdentity(chain, key.replace(damage, "", 1), name="here")))

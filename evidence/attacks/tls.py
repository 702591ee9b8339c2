"""TLS: old versions and ciphers, certificates that are nobody's, tickets from elsewhere, bytes that are no TLS."""

from __future__ import annotations

import asyncio
import shutil
import ssl

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED
from evidence.attacks.target import Target, quietly_weak
from oncelog.host.certificate_authority import Authority, Certificate

REFUSED = "the handshake fails"
T12 = ssl.TLSVersion.TLSv1_2


async def shaken(target: Target, context: ssl.SSLContext, listener: str = "TLS") -> str:
    """Whether anything is served over it; a refusal may come with the first read (TLS 1.3)."""
    try:
        peer = await target.connect(listener, context)
        return "served" if await peer.is_served() else REFUSED
    except (ssl.SSLError, OSError):
        return REFUSED


def weak(version: ssl.TLSVersion | None = None, ciphers: str = "") -> ssl.SSLContext:
    """A client of long ago."""
    return quietly_weak(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), version, ciphers)


async def showing(target: Target, name: str, made: Certificate) -> str:
    """What who shows this certificate gets from a listener that demands one."""
    return await shaken(target, target.files.context(target.files.put(name, made.chain, made.key)), "MUTUAL")


@attack(REFUSED, "tls failed")
async def tls_1_0(target: Target) -> str:
    """Speaks TLS 1.0."""
    return await shaken(target, weak(ssl.TLSVersion.TLSv1, "ALL"))


@attack(REFUSED, "tls failed")
async def tls_1_1(target: Target) -> str:
    """Speaks TLS 1.1."""
    return await shaken(target, weak(ssl.TLSVersion.TLSv1_1, "ALL"))


@attack(REFUSED, "tls failed")
async def ciphers_in_cbc_mode(target: Target) -> str:
    """Offers TLS 1.2 with CBC suites only (Lucky 13)."""
    return await shaken(target, weak(T12, "ECDHE+AES:!AESGCM:!AESCCM"))


@attack(REFUSED, "tls failed")
async def ciphers_without_forward_secrecy(target: Target) -> str:
    """Offers key exchange by RSA only (ROBOT): who gets the key later would read it all."""
    return await shaken(target, weak(T12, "kRSA"))


@attack(REFUSED, "tls failed")
async def ciphers_without_a_certificate(target: Target) -> str:
    """Offers anonymous key exchange only."""
    return await shaken(target, weak(T12, "aNULL"))


@attack(REFUSED, "tls failed")
async def ciphers_that_encrypt_nothing(target: Target) -> str:
    """Offers NULL encryption only."""
    return await shaken(target, weak(T12, "eNULL"))


@attack("refused, closed or ignored")
async def renegotiation(target: Target) -> str:
    """Renegotiates in a living TLS 1.2 connection, which costs the broker a handshake each time."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "needs openssl"
    host, port = target.addresses["TLS"]
    command = (openssl, "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", target.files.ca)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    assert process.stdin is not None
    assert process.stdout is not None
    text = b""
    async with asyncio.timeout(20):
        while b"---\n" not in text or b"Verify return code" not in text:
            text += await process.stdout.read(4096)
        process.stdin.write(b"R\n")
        await process.stdin.drain()
        text = b""
        while b"RENEGOTIATING" not in text:
            text += await process.stdout.read(4096)
        process.stdin.close()
        text += await process.stdout.read()
        await process.wait()
    is_done = b"verify return" in text.split(b"RENEGOTIATING")[-1]
    return "renegotiated" if is_done else "refused, closed or ignored"


@attack(CLOSED, "tls failed")
async def plain_bytes_at_a_tls_port(target: Target) -> str:
    """Sends a Kafka request without TLS."""
    peer = await target.raw("TLS")
    peer.send(bytes.fromhex("00000014 00120000 00000001 000a") + b"attacker12")
    return CLOSED if await peer.is_closed() else "open"


@attack(CLOSED, "tls failed")
async def a_browser_at_a_tls_port(target: Target) -> str:
    """Sends HTTP without TLS."""
    peer = await target.raw("TLS")
    peer.send(b"GET / HTTP/1.1\r\n\r\n")
    return CLOSED if await peer.is_closed() else "open"


@attack(CLOSED, "tls failed")
async def ssl_2(target: Target) -> str:
    """Says hello as SSL 2 does (DROWN)."""
    return await end_of_any(
        target, bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + bytes(16)
    )


@attack(CLOSED, "tls failed")
async def a_record_that_is_too_long(target: Target) -> str:
    """A TLS record of 65,535 bytes, where 16 KiB are allowed."""
    return await end_of_any(target, b"\x16\x03\x01\xff\xff" + bytes(65_535))


@attack(CLOSED, "tls failed")
async def a_heartbeat(target: Target) -> str:
    """Asks for 16 KiB of the broker's memory by a heartbeat (CVE-2014-0160)."""
    return await end_of_any(target, bytes.fromhex("18030200030140 00".replace(" ", "")))


async def end_of_any(target: Target, data: bytes) -> str:
    """The end, behind an alert at most."""
    peer = await target.raw("TLS")
    peer.send(data)
    answer = await peer.read(8)
    if answer is not None and answer[0] != 0x15:
        return f"answered {answer!r}"
    return CLOSED if await peer.is_closed() else "open"


@attack(REFUSED, "tls failed")
async def no_certificate(target: Target) -> str:
    """Shows none where one is demanded."""
    return await shaken(target, target.files.context(), "MUTUAL")


@attack(REFUSED, "tls failed")
async def a_certificate_of_another_authority(target: Target) -> str:
    """The administrator's name, signed by an authority of the attacker's."""
    return await showing(target, "other", target.files.other.sign("admin"))


@attack(REFUSED, "tls failed")
async def an_authority_of_the_same_name(target: Target) -> str:
    """An authority that calls itself as ours does, with a key of its own."""
    return await showing(target, "namesake", Authority().sign("admin"))


@attack(REFUSED, "tls failed")
async def a_certificate_that_signed_itself(target: Target) -> str:
    """Signed by nobody but itself."""
    own = Authority("admin")
    return await showing(target, "self", Certificate(own.pem, own.key_pem))


@attack(REFUSED, "tls failed")
async def a_certificate_that_a_user_signed(target: Target) -> str:
    """Alice signs a certificate for the administrator with her own key, and sends hers along."""
    text = target.files.text(target.files.alice)
    at = text.index("-----BEGIN CERTIFICATE")
    made = Authority.of_pem(text[at:], text[:at]).sign("admin")
    return await showing(target, "leaf", Certificate(made.chain + text[at:], made.key))


@attack(REFUSED, "tls failed")
async def an_expired_certificate(target: Target) -> str:
    """Ended yesterday."""
    return await showing(target, "expired", target.files.authority.sign("admin", days=(-5, -1)))


@attack(REFUSED, "tls failed")
async def a_certificate_of_tomorrow(target: Target) -> str:
    """Does not hold yet."""
    return await showing(target, "early", target.files.authority.sign("admin", days=(1, 5)))


@attack(REFUSED, "tls failed")
async def a_servers_certificate(target: Target) -> str:
    """One that is for servers only (extended key usage), as every host of a company may have."""
    return await showing(target, "server", target.files.authority.sign("admin", usage="server"))


@attack(REFUSED, "tls failed")
async def a_certificate_with_a_short_key(target: Target) -> str:
    """Well signed, with an RSA key of 1,024 bits."""
    made = _with_a_short_key(target)
    context = quietly_weak(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ciphers="ALL")
    context.load_cert_chain(target.files.put("short", made.chain, made.key))
    return await shaken(target, context, "MUTUAL")


def _with_a_short_key(target: Target) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    authority = target.files.authority
    like = x509.load_pem_x509_certificate(authority.sign("admin").chain.encode())
    key = rsa.generate_private_key(65_537, 1_024)
    builder = x509.CertificateBuilder(like.issuer, like.subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(like.not_valid_before_utc).not_valid_after(like.not_valid_after_utc)
    own = serialization.load_pem_private_key(authority.key_pem.encode(), None)
    made = builder.sign(own, hashes.SHA256())  # type: ignore[arg-type]
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text = key.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode()
    return Certificate(made.public_bytes(pem).decode(), text)


@attack(CLOSED, "came before")
async def a_certificate_instead_of_a_password(target: Target) -> str:
    """Shows a certificate at a listener of SASL, and no password."""
    peer = await target.connect("SASLTLS", target.files.context(target.files.alice))
    return await peer.rest()


async def resumed(target: Target, first: str, second: str) -> str:
    """Whether a ticket of one listener is taken by another (TLS 1.2, where it comes with the handshake)."""
    loop = asyncio.get_running_loop()

    def worked() -> bool:
        import socket

        context = target.files.context(target.files.alice)
        context.maximum_version = T12
        session: ssl.SSLSession | None = None
        is_reused: list[bool | None] = []
        for listener in (first, first, second):
            raw = socket.create_connection(target.addresses[listener], 20, (target.source, 0))
            with context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as secured:
                session = session or secured.session
                is_reused.append(secured.session_reused)
        assert is_reused[1] is not None
        return bool(is_reused[2])

    return "taken" if await loop.run_in_executor(None, worked) else "worth nothing"


@attack("worth nothing")
async def a_ticket_of_another_listener(target: Target) -> str:
    """Brings a ticket of the listener that asks for no certificate to the one that demands one."""
    return await resumed(target, "TLS", "MUTUAL")


@attack("worth nothing")
async def a_ticket_of_mutual_tls_for_passwords(target: Target) -> str:
    """Brings a ticket of the listener with certificates to the one with passwords."""
    return await resumed(target, "MUTUAL", "SASLTLS")


@attack(CLOSED, "tls failed")
async def half_a_hello(target: Target) -> str:
    """Cuts the connection in the middle of its hello."""
    peer = await target.raw("TLS")
    peer.send(bytes.fromhex("1603010200010001fc0303"))
    peer.close()
    return CLOSED

"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677): keys, proofs and messages, as both sides need them; no conversation.

Messages of a server and of a client are read by the same rules: UTF-8, `a=value` parts between commas, names with
`=2C` and `=3D`. Channel binding is not offered.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import field
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac

from oncelog.lazy_dataclass import dataclass

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NAME_BYTES_MAX = 1_024
NONCE_BYTES_MAX = 256
MESSAGE_BYTES_MAX = 4_096

_NONCE = re.compile(r"[!-+\--~]+")  # printable, without the comma
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ScramInvalid(ValueError):
    """A message that breaks the grammar or a bound; says which, and nothing of what was sent."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """A client's first message; `bare` is what is signed, `gs2_header` what the last message repeats."""

    gs2_header: str
    authorization_id: str
    user: str
    nonce: str
    bare: str
    extensions: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """What a server answers: its nonce behind the client's, and how passwords are salted."""

    nonce: str
    salt: bytes
    iterations: int
    text: str


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """A client's proof; `without_proof` is what is signed."""

    binding: bytes
    nonce: str
    proof: bytes = field(repr=False)
    without_proof: str = ""


def salted_password_of(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What a password becomes: PBKDF2, some milliseconds of work."""
    return pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def client_proof(hash_name: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """What shows that the client has the password."""
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    stored_key = new_hash(hash_name, client_key).digest()
    return _xor(client_key, hmac.digest(stored_key, auth_message, hash_name))


def server_signature(hash_name: str, server_key: bytes, auth_message: bytes) -> bytes:
    """What shows that the server has the user's keys."""
    return hmac.digest(server_key, auth_message, hash_name)


def is_proof(hash_name: str, stored_key: bytes, auth_message: bytes, proof: bytes) -> bool:
    """Whether a client's proof fits the stored key."""
    signature = hmac.digest(stored_key, auth_message, hash_name)
    if len(proof) != len(signature):
        return False
    return hmac.compare_digest(new_hash(hash_name, _xor(proof, signature)).digest(), stored_key)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def auth_message(bare: str, server_first: str, without_proof: str) -> bytes:
    """What both sides sign."""
    return f"{bare},{server_first},{without_proof}".encode()


def saslname(name: str) -> str:
    """A name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def parse_client_first(token: bytes) -> ClientFirst:
    """Raises ScramInvalid. `y,,` is taken: no mechanism with channel binding is offered (RFC 5802 §6)."""
    text = _text(token)
    parts = text.split(",")
    if len(parts) < 4:
        raise ScramInvalid("the first message has too few parts")
    if parts[0].startswith("p="):
        raise ScramInvalid("the client wants channel binding, which is not offered")
    if parts[0] not in ("n", "y"):
        raise ScramInvalid("the first message does not begin with n, or y,")
    authorization_id = _name(_value(parts[1], "a")) if parts[1] else ""
    user = _name(_value(parts[2], "n"))
    nonce = _nonce(_value(parts[3], "r"))
    extensions = dict(_extension(part) for part in parts[4:])
    return ClientFirst(f"{parts[0]},{parts[1]},", authorization_id, user, nonce, ",".join(parts[2:]), extensions)


def parse_server_first(token: bytes) -> ServerFirst:
    """Raises ScramInvalid."""
    text = _text(token)
    parts = text.split(",")
    if len(parts) < 3:
        raise ScramInvalid("the server's first message has too few parts")
    iterations = _value(parts[2], "i")
    if not iterations.isascii() or not iterations.isdigit() or len(iterations) > 9:
        raise ScramInvalid("the server's iterations are no number")
    return ServerFirst(_value(parts[0], "r"), _base64(_value(parts[1], "s")), int(iterations), text)


def parse_client_final(token: bytes) -> ClientFinal:
    """Raises ScramInvalid."""
    text = _text(token)
    without_proof, comma, proof = text.rpartition(",")
    parts = without_proof.split(",")
    if not comma or len(parts) < 2:
        raise ScramInvalid("the last message has too few parts")
    binding, nonce = _base64(_value(parts[0], "c")), _value(parts[1], "r")
    return ClientFinal(binding, nonce, _base64(_value(proof, "p")), without_proof)


def parse_server_final(token: bytes) -> bytes:
    """The server's signature. Raises ScramInvalid, also where the server tells an error."""
    text = _text(token)
    if text.startswith("e="):
        raise ScramInvalid("the server tells an error")
    return _base64(_value(text.split(",")[0], "v"))


def base64_text(value: bytes) -> str:
    """As messages have bytes."""
    return base64.b64encode(value).decode("ascii")


def _text(token: bytes) -> str:
    if len(token) > MESSAGE_BYTES_MAX:
        raise ScramInvalid(f"a message of {len(token)} bytes is longer than {MESSAGE_BYTES_MAX}")
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError:
        raise ScramInvalid("a message is not UTF-8") from None
    if _CONTROL.search(text):
        raise ScramInvalid("a message has control characters")
    return text


def _value(part: str, name: str) -> str:
    if not part.startswith(f"{name}="):
        raise ScramInvalid(f"expected {name}=")
    return part[2:]


def _extension(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not name.isascii() or not name.isalpha():
        raise ScramInvalid("an extension is not of the form name=value")
    return name, value


def _name(text: str) -> str:
    """Without its escapes."""
    if not text or len(text.encode()) > NAME_BYTES_MAX:
        raise ScramInvalid(f"a name is empty or longer than {NAME_BYTES_MAX} bytes")
    pieces = text.split("=")
    if any(piece[:2] not in ("2C", "3D") for piece in pieces[1:]):
        raise ScramInvalid("a name has = without 2C or 3D behind it")
    return pieces[0] + "".join((("," if piece[0] == "2" else "=") + piece[2:]) for piece in pieces[1:])


def _nonce(text: str) -> str:
    if len(text) > NONCE_BYTES_MAX or not _NONCE.fullmatch(text):
        raise ScramInvalid(f"a nonce is not 1 to {NONCE_BYTES_MAX} printable characters")
    return text


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramInvalid("base64 was expected") from None

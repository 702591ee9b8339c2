"""SCRAM (RFC 5802): forged, replayed and overlong messages, and what a thief of the broker's own data could do."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from hashlib import sha256

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED, Peer, handshake, said, token
from evidence.attacks.target import Target
from evidence.world.security import SCRAM_PASSWORD, SCRAM_USER, USERS
from oncelog.core.login.mechanisms import ScramLogin
from oncelog.core.scram import auth_message, parse_server_first, salted_password_of

S256 = "SCRAM-SHA-256"
REFUSED = f"58, {CLOSED}"


async def begun(target: Target, user: str = SCRAM_USER, password: str = SCRAM_PASSWORD) -> tuple[Peer, str, str]:
    """After the first message: the server's, and what an honest client would say now."""
    peer = await target.connect()
    await peer.ask(*handshake(S256))
    login = ScramLogin(S256, user, password, "nonce")
    answer = await peer.ask(*token(login.first()))
    challenge = bytes(answer.auth_bytes)
    return peer, challenge.decode(), (login.next(challenge) or b"").decode()


async def whole(target: Target, user: str, password: str) -> str:
    """What an honest login is told, at whichever message."""
    peer = await target.connect()
    answer = await peer.log_in(user, password, S256)
    return f"{said(answer)}, {await peer.rest()}"


async def ended(peer: Peer, text: str) -> str:
    """What the last message is told."""
    return await peer.converse(token(text.encode()))


async def first_is(target: Target, *messages: bytes) -> str:
    """What first messages are told."""
    ends = set()
    for message in messages:
        peer = await target.connect()
        answer = await peer.ask(*handshake(S256))
        answer = await peer.ask(*token(message))
        ends.add("a salt" if answer is not None and not answer.error_code else f"{said(answer)}, {await peer.rest()}")
    return " or ".join(sorted(ends)).replace(f"{CLOSED}, {CLOSED}", CLOSED)


@attack(REFUSED, "wrong password")
async def a_wrong_scram_password(target: Target) -> str:
    """Guesses."""
    peer, _, final = await begun(target, password="guess")
    return await ended(peer, final)


@attack("a salt and iterations for both, refused with the proof", "unknown user")
async def which_scram_users_there_are(target: Target) -> str:
    """Looks whether an unknown name gets a salt."""
    shapes = []
    for user in (SCRAM_USER, "nobody"):
        peer = await target.connect()
        await peer.ask(*handshake(S256))
        login = ScramLogin(S256, user, "guess", "nonce")
        answer = await peer.ask(*token(login.first()))
        if answer.error_code:
            return "an unknown name is refused at once"
        challenge = bytes(answer.auth_bytes)
        found = parse_server_first(challenge)
        last = await peer.ask(*token(login.next(challenge) or b""))
        shapes.append((found.iterations, last.error_code, last.error_message))
    is_alike = shapes[0] == shapes[1]
    return "a salt and iterations for both, refused with the proof" if is_alike else f"told apart: {shapes}"


@attack("the same salt each time")
async def whether_a_salt_is_made_up(target: Target) -> str:
    """Asks twice for an unknown name's salt: one that is drawn each time would give it away."""
    salts = set()
    for _ in range(2):
        peer = await target.connect()
        await peer.ask(*handshake(S256))
        answer = await peer.ask(*token(b"n,,n=nobody,r=abc"))
        if answer.error_code:
            return "an unknown name is refused at once"
        salts.add(parse_server_first(bytes(answer.auth_bytes)).salt)
    return "the same salt each time" if len(salts) == 1 else "another each time"


@attack(REFUSED, "channel binding")
async def another_channel_binding(target: Target) -> str:
    """Says in the last message that the first one said `y`: somebody in the middle took `-PLUS` away."""
    peer, _, final = await begun(target)
    return await ended(peer, final.replace("c=biws", "c=eSws"))


@attack(REFUSED, "channel binding|base64|c=")
async def no_channel_binding(target: Target) -> str:
    """Leaves the channel binding empty, or fills it with anything."""
    ends = set()
    for instead in ("c=", "c=AAAA"):
        peer, _, final = await begun(target)
        ends.add(await ended(peer, final.replace("c=biws", instead)))
    return " or ".join(sorted(ends))


@attack(REFUSED, "binding|gs2|first message|n or y|header")
async def a_binding_that_the_broker_does_not_have(target: Target) -> str:
    """Demands channel binding (`p=tls-unique`)."""
    return await first_is(target, b"p=tls-unique,,n=sam,r=abc")


@attack(REFUSED, "another nonce|nonce")
async def another_nonce(target: Target) -> str:
    """Changes the nonce in the last message; gives only its own half of it."""
    ends = set()
    for cut in (
        lambda text, nonce: text.replace(nonce, nonce[:-1] + ("B" if nonce.endswith("A") else "A")),
        lambda text, nonce: text.replace(nonce, "nonce"),
    ):
        peer, challenge, final = await begun(target)
        ends.add(await ended(peer, cut(final, parse_server_first(challenge.encode()).nonce)))
    return " or ".join(sorted(ends))


@attack(REFUSED, "another nonce|wrong password")
async def a_replay(target: Target) -> str:
    """Records a whole login of Sam and sends the very same bytes again."""
    peer, _, final = await begun(target)
    assert (await peer.ask(*token(final.encode()))).error_code == 0
    peer, _, _ = await begun(target)
    return await ended(peer, final)


@attack(REFUSED, "another nonce|wrong password")
async def a_proof_from_another_connection(target: Target) -> str:
    """Two logins at once; each sends the other's last message (a relay)."""
    one, _, ones = await begun(target)
    other, _, others = await begun(target)
    return " or ".join(sorted({await ended(one, others), await ended(other, ones)}))


@attack(REFUSED, "wrong password|proof")
async def a_proof_of_another_length(target: Target) -> str:
    """A proof of five bytes, of none, of a thousand."""
    ends = set()
    for proof in (b"short", b"", bytes(1_000)):
        peer, _, final = await begun(target)
        ends.add(await ended(peer, final.partition(",p=")[0] + ",p=" + b64encode(proof).decode()))
    return " or ".join(sorted(ends))


@attack(REFUSED, "base64|control characters")
async def a_proof_that_is_no_base64(target: Target) -> str:
    """Line breaks and stars in the proof."""
    peer, _, final = await begun(target)
    return await ended(peer, final.partition(",p=")[0] + ",p=****\n=")


@attack(REFUSED, "wrong password")
async def a_proof_of_zeros(target: Target) -> str:
    """A proof that leaves the stored key as it is: XOR with nothing."""
    peer, _, final = await begun(target)
    return await ended(peer, final.partition(",p=")[0] + ",p=" + b64encode(bytes(32)).decode())


@attack(REFUSED, "wrong password")
async def a_stolen_stored_key(target: Target) -> str:
    """Has read the broker's metadata: uses the StoredKey in the client key's place."""
    peer, challenge, final = await begun(target)
    found = parse_server_first(challenge.encode())
    salted = salted_password_of("sha256", SCRAM_PASSWORD, found.salt, found.iterations)
    stored = sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    before = final.partition(",p=")[0]
    signature = hmac.digest(stored, auth_message(f"n={SCRAM_USER},r=nonce", found.text, before), "sha256")
    proof = bytes(one ^ other for one, other in zip(stored, signature, strict=True))
    return await ended(peer, f"{before},p={b64encode(proof).decode()}")


@attack(REFUSED, "wrong password")
async def the_servers_signature_as_proof(target: Target) -> str:
    """Sends a signature that the broker once gave (`v=`) as its own proof."""
    peer, _, final = await begun(target)
    signature = bytes((await peer.ask(*token(final.encode()))).auth_bytes)[2:]
    assert len(b64decode(signature)) == 32
    peer, _, final = await begun(target)
    return await ended(peer, final.partition(",p=")[0] + ",p=" + signature.decode())


@attack(REFUSED, "expected|c=|channel|nonce|form")
async def the_brokers_own_words(target: Target) -> str:
    """Sends the broker's challenge back to it."""
    peer, challenge, _ = await begun(target)
    return await ended(peer, challenge)


@attack(REFUSED, "another authorization id")
async def sam_as_administrator(target: Target) -> str:
    """A right name, and the administrator's as authorization id."""
    return await first_is(target, b"n,a=admin,n=sam,r=abc")


@attack(REFUSED, "mandatory extension|m=|form|expected")
async def a_mandatory_extension(target: Target) -> str:
    """An extension that must be understood (`m=`)."""
    return await first_is(target, b"n,,m=x,n=sam,r=abc", b"n,,n=sam,r=abc,m=x")


@attack(REFUSED, "longer|name|long|bytes")
async def a_name_of_100_kilobytes(target: Target) -> str:
    """A name that makes some parsers overflow their stack."""
    return await first_is(target, b"n,,n=" + b"a" * 100_000 + b",r=abc")


@attack(REFUSED, "nonce|long|bytes")
async def a_nonce_of_100_kilobytes(target: Target) -> str:
    """A nonce that would come back whole."""
    return await first_is(target, b"n,,n=sam,r=" + b"a" * 100_000)


@attack(REFUSED, "nonce|expected|form|r=")
async def no_nonce(target: Target) -> str:
    """No nonce, an empty one, one with a NUL."""
    return await first_is(target, b"n,,n=sam", b"n,,n=sam,r=", b"n,,n=sam,r=a\0b")


@attack(REFUSED, "expected|n=|form|first|gs2|header|name")
async def the_last_message_first(target: Target) -> str:
    """Skips the challenge."""
    return await first_is(target, b"c=biws,r=abc,p=" + b64encode(bytes(32)))


@attack(REFUSED, "unknown user")
async def a_name_with_another_inside(target: Target) -> str:
    """`alice,n=sam` with its comma and sign escaped: one name, and not Sam's."""
    return await whole(target, "alice,n=sam", SCRAM_PASSWORD)


@attack(REFUSED, "name|escape|=|form|expected")
async def a_name_that_is_escaped_wrongly(target: Target) -> str:
    """`=3X` and a bare `=` in a name."""
    return await first_is(target, b"n,,n=sa=3Xm,r=abc", b"n,,n=sam=,r=abc")


@attack(REFUSED, "wrong password|proof")
async def a_proof_by_another_hash(target: Target) -> str:
    """Names SCRAM-SHA-512 and proves by SHA-256."""
    peer = await target.connect()
    await peer.ask(*handshake("SCRAM-SHA-512"))
    login = ScramLogin(S256, SCRAM_USER, SCRAM_PASSWORD, "nonce")
    answer = await peer.ask(*token(login.first()))
    return await peer.converse(token(login.next(bytes(answer.auth_bytes)) or b""))


@attack(REFUSED, "unknown user")
async def a_plain_user_by_scram(target: Target) -> str:
    """Alice, who is in the JAAS line only, with her right password."""
    return await whole(target, "alice", USERS["alice"])

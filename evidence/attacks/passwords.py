"""PLAIN (RFC 4616): names and passwords that are nearly right."""

from __future__ import annotations

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED, handshake, plain, token
from evidence.attacks.target import Target
from evidence.world.security import SCRAM_PASSWORD, SCRAM_USER, USERS

ALICE = USERS["alice"]
REFUSED = f"58, {CLOSED}"


async def tried(target: Target, *tokens: object) -> str:
    """What each is told, on a connection of its own."""
    ends = set()
    for each in tokens:
        step = each if isinstance(each, tuple) else token(each)  # type: ignore[arg-type]
        ends.add(await (await target.connect()).converse(handshake(), step))
    return " or ".join(sorted(ends))


@attack(REFUSED, "wrong password")
async def a_wrong_password(target: Target) -> str:
    """Guesses."""
    return await tried(target, plain("alice", "guess"))


@attack("one text for both")
async def which_users_there_are(target: Target) -> str:
    """Compares the words for a user who exists and one who does not."""
    texts = []
    for user in ("alice", "nobody"):
        texts.append((await (await target.connect()).log_in(user, "guess")).error_message)
    return "one text for both" if len(set(texts)) == 1 else "two texts"


@attack(REFUSED, "another authorization id")
async def as_somebody_else(target: Target) -> str:
    """Alice logs in with her own password and asks to be the administrator (authorization id)."""
    return await tried(target, plain("alice", ALICE, "admin"))


@attack(REFUSED, "no password")
async def no_password(target: Target) -> str:
    """Leaves the password empty."""
    return await tried(target, plain("admin", ""))


@attack(REFUSED, "no user name")
async def no_name(target: Target) -> str:
    """Leaves the name empty, with and without an authorization id."""
    return await tried(target, plain("", ALICE), plain("", ALICE, "admin"))


@attack(REFUSED, "parts")
async def a_third_nul(target: Target) -> str:
    """Puts the right password before a NUL and something behind it."""
    return await tried(target, f"\0alice\0{ALICE}\0x".encode(), f"\0alice\0{ALICE}\0".encode())


@attack(REFUSED, "parts")
async def no_nul(target: Target) -> str:
    """Sends a name and nothing else, and nothing at all."""
    return await tried(target, b"alice", b"", b"\0alice")


@attack(REFUSED, "UTF-8")
async def bytes_that_are_no_text(target: Target) -> str:
    """A password that is not UTF-8, overlong forms of NUL among them."""
    return await tried(target, b"\0alice\0\xff\xfe", b"\xc0\x80alice\xc0\x80" + ALICE.encode())


@attack(REFUSED, "wrong password|unknown user")
async def the_beginning_of_a_password(target: Target) -> str:
    """All of the password but its last letter; the password twice; in capitals; with a blank behind it."""
    return await tried(target, *(plain("alice", each) for each in (ALICE[:-1], ALICE * 2, ALICE.upper(), ALICE + " ")))


@attack(REFUSED, "unknown user")
async def names_that_look_alike(target: Target) -> str:
    """Alice's password under `Alice`, `alice ` and her name with a wide and with a Cyrillic letter."""
    return await tried(target, *(plain(each, ALICE) for each in ("Alice", "alice ", "\uff41lice", "\u0430lice")))


@attack(REFUSED, "unknown user")
async def a_user_of_another_store(target: Target) -> str:
    """A SCRAM user's right name and password by PLAIN: the listener's own users are others."""
    return await tried(target, plain(SCRAM_USER, SCRAM_PASSWORD))


@attack(REFUSED, "wrong password")
async def a_password_of_another_user(target: Target) -> str:
    """Alice's password under the administrator's name."""
    return await tried(target, plain("admin", ALICE))


@attack(REFUSED, "bytes|wrong password")
async def a_password_of_400_kilobytes(target: Target) -> str:
    """A password as long as the frame allows, to be hashed."""
    return await tried(target, plain("alice", "x" * 400_000))


@attack(REFUSED, "parts|unknown user")
async def names_of_the_configuration(target: Target) -> str:
    """Names as the JAAS line writes them, and with its quotes: `user_alice`, `alice="..."`."""
    return await tried(target, *(plain(name, ALICE) for name in ("user_alice", 'alice="', "alice;admin")))


@attack(REFUSED, "parts|wrong|unknown|no user")
async def scrams_message_to_plain(target: Target) -> str:
    """SCRAM's first message where PLAIN was named."""
    return await tried(target, b"n,,n=alice,r=abc")

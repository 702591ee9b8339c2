"""Names that forge: lines of a log, other principals, other users' rules."""

from __future__ import annotations

import time

from evidence.attacks.attack import attack
from evidence.attacks.json_web_tokens import show
from evidence.attacks.peer import CLOSED, handshake, plain, said, token
from evidence.attacks.target import HIDDEN, Target
from evidence.world.identity_provider import claims, message, signed
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

REFUSED = f"58, {CLOSED}"
FORGED = 'x"}\n{"event": "login", "principal": "User:admin'


@attack(REFUSED, "unknown user")
async def a_name_that_ends_a_line(target: Target) -> str:
    """A user name with a line break and a whole forged login behind it, by PLAIN."""
    return await (await target.connect()).converse(handshake(), plain(FORGED, "x"))


@attack(REFUSED, "unknown user|name|control")
async def a_scram_name_that_ends_a_line(target: Target) -> str:
    """The same by SCRAM."""
    peer = await target.connect()
    await peer.ask(*handshake("SCRAM-SHA-256"))
    answer = await peer.ask(*token(f"n,,n={FORGED.replace('=', '=3D').replace(',', '=2C')},r=abc".encode()))
    if answer is not None and not answer.error_code:
        nonce = bytes(answer.auth_bytes).decode().partition(",")[0]
        return await peer.converse(token(f"c=biws,{nonce},p={'A' * 43}=".encode()))
    return f"{said(answer)}, {await peer.rest()}"


@attack(REFUSED, "unknown user")
async def a_name_that_steers_a_terminal(target: Target) -> str:
    """Escape sequences, marks that turn the direction of text, line separators of Unicode."""
    name = "\x1b[2J\x1b]0;owned\x07\u202enimda\u2066\u2028\u2029\x85\x00".replace("\x00", "")
    return await (await target.connect()).converse(handshake(), plain(name, "x"))


@attack(REFUSED, "unknown user")
async def a_name_of_60_kilobytes(target: Target) -> str:
    """A name of 60,000 letters, that fills a disk when it is logged often enough."""
    return await (await target.connect()).converse(handshake(), plain("n" * 60_000, "x"))


@attack(REFUSED, "sub is no name")
async def a_tokens_name_that_ends_a_line(target: Target) -> str:
    """A token, well signed, whose `sub` has a line break."""
    made = signed(claims(sub=FORGED))
    target.secrets.add(made)
    return await show(await target.connect(), message(made))


@attack(REFUSED, "ANONYMOUS")
async def a_tokens_name_is_nobody(target: Target) -> str:
    """A token, well signed, for `ANONYMOUS`: who comes without a name is often a super user, on loopback."""
    made = signed(claims(sub="ANONYMOUS", exp=time.time() + 60))
    target.secrets.add(made)
    return await show(await target.connect(), message(made))


@attack("29", "denied")
async def a_tokens_name_is_everybody(target: Target) -> str:
    """A token, well signed, for `*`, which rules for everybody name."""
    peer = await target.connect()
    made = signed(claims(sub="*"))
    target.secrets.add(made)
    await show(peer, message(made))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=HIDDEN)], allow_auto_topic_creation=False)
    return said(await peer.ask(asked, 12))


@attack("29", "denied")
async def a_tokens_name_with_a_type(target: Target) -> str:
    """A token, well signed, for `User:admin`: with the type before it once more."""
    peer = await target.connect()
    made = signed(claims(sub="User:admin"))
    target.secrets.add(made)
    await show(peer, message(made))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=HIDDEN)], allow_auto_topic_creation=False)
    return said(await peer.ask(asked, 12))


async def subject(target: Target, *pairs: tuple[str, str]) -> str:
    """What a certificate with this subject may do with the administrator's topic."""
    own = target.files.authority.sign(list(pairs))
    path = target.files.put(f"forged-{abs(hash(pairs))}", own.chain, own.key)
    peer = await target.connect("MUTUAL", target.files.context(path))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=HIDDEN)], allow_auto_topic_creation=False)
    return said(await peer.ask(asked, 12))


CN, O = "2.5.4.3", "2.5.4.10"  # noqa: E741 - their names


@attack("29", "denied")
async def a_subject_with_another_inside(target: Target) -> str:
    """A certificate for `x,CN=admin`, whose rule would take the name behind the comma."""
    return await subject(target, (CN, "x,CN=admin"))


@attack("29", "denied")
async def a_subject_with_two_names(target: Target) -> str:
    """A certificate with two common names, one of them the administrator's."""
    return await subject(target, (CN, "admin"), (CN, "mallory"))


@attack("29", "denied")
async def a_subject_that_ends_a_line(target: Target) -> str:
    """A certificate for `x`, a line break, and a forged line; and `admin` with a line break behind it."""
    ends = {await subject(target, (CN, "admin\n")), await subject(target, (CN, "x\nUser:admin logged in"))}
    return " or ".join(sorted(ends))


@attack(CLOSED, "ANONYMOUS")
async def a_subject_is_nobody(target: Target) -> str:
    """A certificate that a mapping rule makes `ANONYMOUS` of."""
    own = target.files.authority.sign([(CN, "ANONYMOUS")])
    path = target.files.put("anonymous", own.chain, own.key)
    peer = await target.connect("MUTUAL", target.files.context(path))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=HIDDEN)], allow_auto_topic_creation=False)
    return said(await peer.ask(asked, 12))


@attack("17")
async def a_topic_that_ends_a_line(target: Target) -> str:
    """The administrator creates a topic whose name has a line break, and one that is a path."""
    peer = await target.come_in("admin")
    names = (FORGED, "../../etc/passwd", "..", "a/b", "a\0b")
    ends = set()
    for name in names:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        ends.add(said(await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5)))
    return " or ".join(sorted(ends))


@attack("denied", "denied")
async def a_client_id_that_ends_a_line(target: Target) -> str:
    """Alice is denied something under a client id with a forged line in it."""
    peer = await target.come_in()
    asked = CreateTopicsRequest(topics=[CreatableTopic(name=HIDDEN + "2", num_partitions=1, replication_factor=1)])
    return "denied" if said(await peer.ask(asked, 5, client_id=FORGED)) == "29" else "made"


@attack("refused")
async def a_stored_name_that_ends_a_line(target: Target) -> str:
    """The administrator stores credentials for a name with a line break."""
    peer = await target.come_in("admin")
    asked = ScramCredentialUpsertion(
        name=FORGED, mechanism=1, iterations=4_096, salt=b"salt", salted_password=bytes(32)
    )
    code = said(await peer.ask(AlterUserScramCredentialsRequest(upsertions=[asked]), 0))
    return "stored" if code == "0" else "refused"

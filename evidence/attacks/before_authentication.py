"""Before anybody has said who it is: requests out of turn, broken frames, other protocols."""

from __future__ import annotations

import struct

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED, handshake, plain, said, token
from evidence.attacks.target import NEVER, Target
from evidence.world.security import USERS
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.metadata import MetadataRequest

METADATA = (MetadataRequest(topics=[]), 12)
VERSIONS = (ApiVersionsRequest(), 0)
TOO_EARLY = "a request came before the authentication"


def header(key: int, version: int, body: bytes = b"") -> bytes:
    """A frame with an old header and any body."""
    inner = struct.pack(">hhih", key, version, 1, -1) + body
    return struct.pack(">i", len(inner)) + inner


async def end_of(target: Target, data: bytes, listener: str = "SASL") -> str:
    """Whether raw bytes end the connection without an answer."""
    peer = await target.raw(listener)
    peer.send(data)
    answer = await peer.read(1)
    return CLOSED if answer is None else "answered"


@attack(CLOSED, TOO_EARLY)
async def metadata_first(target: Target) -> str:
    """Asks for the cluster's topics without a word about who it is."""
    return await (await target.connect()).converse(METADATA)


@attack(CLOSED, TOO_EARLY)
async def metadata_after_versions(target: Target) -> str:
    """Asks for versions as everybody does, then for topics."""
    return await (await target.connect()).converse(VERSIONS, METADATA)


@attack(CLOSED, TOO_EARLY)
async def every_request_there_is(target: Target) -> str:
    """Sends a request of each API in turn, each on a connection of its own."""
    ends = set()
    for key in APIS:
        if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            ends.add(await end_of(target, header(key, APIS[key].max_stable_version, bytes(40))))
    return " or ".join(sorted(ends))


@attack(CLOSED, "before SaslHandshake")
async def authenticate_first(target: Target) -> str:
    """Shows a right password without naming a mechanism first."""
    return await (await target.connect()).converse(plain("alice", USERS["alice"]))


@attack(f"33, {CLOSED}", "a mechanism that the listener does not have")
async def a_mechanism_that_is_off(target: Target) -> str:
    """Names GSSAPI, which the listener does not have."""
    return await (await target.connect()).converse(handshake("GSSAPI"))


@attack(f"33, {CLOSED}", "a mechanism that the listener does not have")
async def a_mechanism_in_lower_case(target: Target) -> str:
    """Names `plain`: a filter in front may look for PLAIN."""
    return await (await target.connect()).converse(handshake("plain"))


@attack(f"33, {CLOSED}", "a mechanism that the listener does not have")
async def anonymous_as_mechanism(target: Target) -> str:
    """Names ANONYMOUS (RFC 4505), and no mechanism at all."""
    ends = {await (await target.connect()).converse(handshake(name)) for name in ("ANONYMOUS", "")}
    return " or ".join(sorted(ends))


@attack(f"33, {CLOSED}", "a mechanism that the listener does not have")
async def a_mechanism_of_30_kilobytes(target: Target) -> str:
    """Names a mechanism as long as a string may be, for the log to be filled."""
    return await (await target.connect()).converse(handshake("M" * 30_000))


@attack(f"34, {CLOSED}", "in the middle of an authentication")
async def two_handshakes(target: Target) -> str:
    """Names a mechanism, then a weaker one before a token."""
    return await (await target.connect()).converse(handshake("SCRAM-SHA-256"), handshake("PLAIN"))


@attack(f"34, {CLOSED}", "in the middle of an authentication")
async def a_handshake_between_scrams_messages(target: Target) -> str:
    """Begins SCRAM as one user, then PLAIN as another on the same connection."""
    peer = await target.connect()
    return await peer.converse(handshake("SCRAM-SHA-256"), token(b"n,,n=sam,r=abc"), handshake("PLAIN"))


@attack(CLOSED, TOO_EARLY)
async def versions_twice(target: Target) -> str:
    """Asks for versions again and again instead of logging in."""
    return await (await target.connect()).converse(VERSIONS, VERSIONS)


@attack(CLOSED, TOO_EARLY)
async def a_request_where_a_token_is_due(target: Target) -> str:
    """Names a mechanism, then asks for topics in the token's place."""
    peer = await target.connect()
    await peer.ask(*handshake())
    answer = await peer.ask(*METADATA)
    return CLOSED if answer is None else f"34 in Metadata's form, {await peer.rest()}"


@attack(CLOSED, "2147483647|larger|longer")
async def a_frame_of_two_gigabytes(target: Target) -> str:
    """Announces the longest frame that four bytes can say, and sends nothing of it."""
    return await end_of(target, b"\x7f\xff\xff\xff")


@attack(CLOSED, "600000|larger|longer")
async def a_frame_above_the_bound(target: Target) -> str:
    """Announces 600,000 bytes where `sasl.server.max.receive.size` allows 524,288."""
    return await end_of(target, struct.pack(">i", 600_000))


@attack(CLOSED, "-1|negative|frame")
async def a_frame_of_negative_length(target: Target) -> str:
    """Announces -1 bytes."""
    return await end_of(target, b"\xff\xff\xff\xff")


@attack(CLOSED, "header|short|malformed|came before")
async def a_frame_of_nothing(target: Target) -> str:
    """Announces 0 bytes, a thousand times in one segment."""
    return await end_of(target, bytes(4_000))


@attack(CLOSED, "larger|longer|frame")
async def a_browser(target: Target) -> str:
    """Speaks HTTP, as a page of a hostile site could make a browser do."""
    return await end_of(target, b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


@attack(CLOSED, "larger|longer|frame|TLS")
async def tls_at_a_port_without(target: Target) -> str:
    """Says hello in TLS where plain bytes are spoken."""
    return await end_of(target, bytes.fromhex("160301020001 0001fc0303") + bytes(510))


@attack(CLOSED, "not served")
async def a_handshake_of_an_unknown_version(target: Target) -> str:
    """Sends SaslHandshake of version 99."""
    return await end_of(target, header(ApiKey.SASL_HANDSHAKE, 99, b"\0\5PLAIN"))


@attack(CLOSED, "not served|came before")
async def an_api_that_there_is_not(target: Target) -> str:
    """Sends requests of API keys 999 and -1."""
    return " or ".join(sorted({await end_of(target, header(key, 0)) for key in (999, -1)}))


@attack(CLOSED, "malformed")
async def an_array_of_two_thousand_million(target: Target) -> str:
    """A SaslAuthenticate whose token says that it has 2,147,483,647 bytes, in a frame of 20."""
    peer = await target.connect()
    await peer.ask(*handshake())
    peer.send(header(ApiKey.SASL_AUTHENTICATE, 1, b"\x7f\xff\xff\xff" + bytes(10)))
    return CLOSED if await peer.read(1) is None else "answered"


@attack(f"behind it nothing was done, {CLOSED}", "wrong password")
async def everything_in_one_segment(target: Target) -> str:
    """Puts a CreateTopics right behind a wrong password, all in one segment."""
    peer = await target.connect()
    topic = CreateTopicsRequest(topics=[CreatableTopic(name=NEVER, num_partitions=1, replication_factor=1)])
    peer.post(*handshake())
    peer.post(*plain("alice", "wrong"))
    peer.post(topic, 5)
    is_closed = await peer.is_closed()
    async with with_admin(target) as admin:
        has_made = NEVER in await admin.list_topics()
    return f"behind it {'it was made' if has_made else 'nothing was done'}, {CLOSED if is_closed else 'open'}"


@attack(CLOSED, TOO_EARLY)
async def nothing_but_a_handshake(target: Target) -> str:
    """Names a mechanism and creates a topic in the same segment, without any token."""
    peer = await target.connect()
    topic = CreateTopicsRequest(topics=[CreatableTopic(name=NEVER, num_partitions=1, replication_factor=1)])
    peer.post(*handshake())
    peer.post(topic, 5)
    answer = await peer.frame()
    return CLOSED if answer is not None and await peer.is_closed() else "open"


@attack(CLOSED, "wrong password")
async def a_wrong_token_after_an_old_handshake(target: Target) -> str:
    """Takes SaslHandshake v0, where tokens come without requests and nobody is told of a failure."""
    peer = await target.connect()
    await peer.ask(*handshake(version=0))
    data = b"\0alice\0wrong"
    peer.send(struct.pack(">i", len(data)) + data)
    return CLOSED if await peer.read(1) is None else "answered"


@attack(CLOSED, "parts|UTF-8|no user name")
async def a_request_in_place_of_a_raw_token(target: Target) -> str:
    """After SaslHandshake v0 a whole Metadata request stands where the token is due."""
    peer = await target.connect()
    await peer.ask(*handshake(version=0))
    peer.send(b"".join(map(bytes, encode_request(ApiKey.METADATA, 12, 7, "x", METADATA[0]))))
    return CLOSED if await peer.read(1) is None else "answered"


@attack("42")
async def a_software_name_that_forges(target: Target) -> str:
    """Gives a client software name with a line break and a colour for the terminal."""
    peer = await target.connect()
    name = "kafka\nlogin ok\x1b[31m"
    return said(await peer.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3))


def with_admin(target: Target):  # type: ignore[no-untyped-def]
    """An administrator by the plain listener."""
    from oncelog import Admin

    return Admin(bootstrap_servers="{}:{}".format(*target.addresses["PLAINTEXT"]))

"""Every byte before an authentication: a broker in this process whose only listener wants a login; nobody ever has the right one.

One life is a broker with some thousand connections. Each sends what a login is made of (handshakes, PLAIN, SCRAM that goes on
with the broker's own nonce, OAUTHBEARER with tokens that are signed wrongly, expired, for others, or not signed), changed, cut,
in another order, with other requests between. What must hold: nobody is let in; nothing but ApiVersions, SaslHandshake and
SaslAuthenticate is answered; nothing is logged as an error, no step takes a second; afterwards who has the password is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import struct
import tempfile
from random import Random
from typing import Any

from evidence.fuzz.findings import Findings, logged_errors, timed
from evidence.fuzz.mutation import mutated
from evidence.world import direct
from evidence.world.direct import START_MS, DirectNetwork, direct_host
from evidence.world.files import SimFiles
from evidence.world.identity_provider import AUDIENCE, ISSUER, claims, encoded, key_set, message, public, signed
from evidence.world.loop import SimLoop, run_simulated
from evidence.world.security import JAAS, USERS
from oncelog.broker.broker import Broker
from oncelog.core.metadata.credentials import SCRAM_SHA_256, credential
from oncelog.core.scram import salted_password_of
from oncelog.errors import MalformedFrame, MalformedMessage
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request, response_correlation_id
from oncelog.wire.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest

INPUTS = 6_000
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
BEFORE_A_LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
NOW_S = START_MS / 1000
KINDS = {"PLAIN": 0, "SCRAM-SHA-256": 1, "SCRAM-SHA-512": 1, "OAUTHBEARER": 3}
SCRAM_NONCE = "0123456789abcdef"


def config(keys: str) -> dict[str, object]:
    """Of the broker: each mechanism."""
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{JAAS};",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{MODULE}LoginModule required;",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": f"{MODULE}ValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": 0,
        "delegation.token.secret.key": "a secret of the broker",
        "oncelog.log.max.lines.per.minute": 1,
    }


class Stranger(asyncio.Protocol):
    """One connection: it judges what comes back."""

    def __init__(self, findings: Findings, repeat: str) -> None:
        self.findings, self.repeat = findings, repeat
        self.is_open = True
        self.sent: dict[int, tuple[int, int]] = {}  # what was asked, unchanged, by correlation id
        self.challenge = b""
        self.mechanism = ""  # of the last handshake
        self.is_raw = False  # after SaslHandshake v0 no reply has a header
        self._reader = FrameReader()
        self._transport: Any

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.receive(data):
            if self.is_raw:
                self.challenge = bytes(frame)
                continue
            if len(frame) < 4:
                self.findings.add("a reply without a correlation id", self.repeat, bytes(frame).hex())
                continue
            key, version = self.sent.get(response_correlation_id(frame), (-1, -1))
            if key < 0:
                continue  # to a request that was changed
            if key not in BEFORE_A_LOGIN:
                self.findings.add(f"{ApiKey(key).name} was answered before a login", self.repeat, bytes(frame).hex())
                continue
            try:
                _, reply = decode_response(key, version, frame)
            except MalformedMessage as error:
                self.findings.add_error(error, self.repeat, bytes(frame).hex())
                continue
            if key == ApiKey.SASL_AUTHENTICATE:
                self.challenge = bytes(reply.auth_bytes)


class Life:
    """One broker's life."""

    def __init__(self, seed: str, findings: Findings, count: int) -> None:
        self.findings, self.count = findings, count
        self.random = Random(f"fuzz {seed}")
        self.seed, self.repeat = seed, f"make fuzz SEED={seed}"
        self.tokens = self._tokens()
        self.correlation_id = 0
        self.last = ""

    def _tokens(self) -> list[str]:
        """None of them is good."""
        good = claims(NOW_S)
        found = [
            signed(claims(NOW_S), name="strangers"),
            signed(claims(NOW_S, aud="other")),
            signed(claims(NOW_S, iss="other")),
            signed(claims(NOW_S - 100_000)),
            signed(claims(NOW_S, sub=None)),
            signed(good, algorithm="HS256", with_key=json.dumps(public()).encode()),
            f"{encoded({'alg': 'none'})}.{encoded(good)}.",
            f"{encoded({'alg': 'RS256', 'kid': 'first'})}.{encoded(good)}.{encoded(bytes(256))}",
        ]
        whole = signed(good)
        header, body, signature = whole.split(".")
        other = encoded(claims(NOW_S, sub="admin"))
        return [*found, f"{header}.{other}.{signature}", f"{header}.{body}.", whole[:-2], f"{whole}.x"]

    # what is sent

    def login_bytes(self, stranger: Stranger) -> bytes:
        """Of a mechanism; some go on where the broker's last challenge leaves off."""
        random = self.random
        kind = KINDS.get(stranger.mechanism, 4) if random.random() < 0.85 else random.randrange(5)
        if kind == 1 and stranger.challenge.startswith(b"r="):
            kind = 2
        if kind == 0:
            user = random.choice((*USERS, *USERS, "sam", "nobody", ""))
            parts = random.choice(("", user, "admin")), user, random.choice(("guess", "", "scram-secre"))
            token = "\0".join(parts).encode()
        elif kind == 1:
            user = random.choice(("sam", "sam", "sam", "nobody", "a=2Cb", "alice"))
            token = f"n,,n={user},r={SCRAM_NONCE}{random.choice(('', ',tokenauth=true'))}".encode()
        elif kind == 2:
            nonce = stranger.challenge.partition(b",")[0].removeprefix(b"r=") or SCRAM_NONCE.encode()
            token = b"c=biws,r=" + nonce + b",p=" + random.choice((b"A" * 43 + b"=", b"A" * 43 + b"=", b"YWJj", b""))
        elif kind == 3:
            token = message(random.choice(self.tokens), name=random.choice(("", "admin")))
        else:
            token = random.choice((b"\x01", b"", random.randbytes(random.randrange(40))))
        return mutated(random, token) if random.random() < 0.3 and token else token

    def frame(self, stranger: Stranger) -> bytes:
        """The next input."""
        random = self.random
        if stranger.is_raw and random.random() < 0.8:
            token = self.login_bytes(stranger)
            return struct.pack(">i", len(token)) + token
        asked: Any
        chance = random.random() if stranger.mechanism or random.random() < 0.3 else 0.0
        if chance < 0.1:
            asked, version = (
                SaslHandshakeRequest(mechanism=random.choice((*MECHANISMS, *MECHANISMS, "", "GSSAPI"))),
                random.randrange(2),
            )
        elif chance < 0.8:
            asked, version = SaslAuthenticateRequest(auth_bytes=self.login_bytes(stranger)), random.randrange(3)
        elif chance < 0.9:
            asked, version = ApiVersionsRequest(), random.randrange(4)
        else:
            asked, version = random.choice(((MetadataRequest(topics=None), 12), (ListGroupsRequest(), 4)))
        self.correlation_id += 1
        data = b"".join(
            bytes(part) for part in encode_request(ApiKey(asked.KEY), version, self.correlation_id, "f", asked)
        )
        if random.random() < 0.2:
            changed = mutated(random, data, 4 if random.random() < 0.9 else 0)
            if random.random() < 0.8:
                changed = struct.pack(">i", len(changed) - 4) + changed[4:]
            # Whose correlation id it has now nobody knows.
            return changed
        stranger.sent[self.correlation_id] = asked.KEY, version
        if asked.KEY == ApiKey.SASL_HANDSHAKE and asked.mechanism in MECHANISMS:
            stranger.mechanism, stranger.challenge = asked.mechanism, b""
            stranger.is_raw = version == 0
        return data

    # the life

    async def live(self, loop: SimLoop) -> None:
        network = DirectNetwork()
        network.has_shortcut = True
        with tempfile.TemporaryDirectory() as folder, logged_errors() as logged:
            keys = f"{folder}/keys.json"
            _write_keys(keys)
            broker = Broker("data", config(keys), direct_host(SimFiles(self.seed), network, self.seed))
            await broker.start()
            async with broker.store.changing():
                await broker.store.append([_scram_user()])
            sent = 0
            while sent < self.count:
                sent += await self._conversation(network)
                self.findings.add_internal_errors(loop, logged.take(), self.repeat, self.last)
            if broker.metrics.count("authentications"):
                self.findings.add("somebody was let in", self.repeat, self.last)
            await self._serves_who_knows_the_password(network)
            await asyncio.sleep(20)  # whoever is left is put out
            if broker.server.strangers._held_bytes:
                self.findings.add("strangers are held for ever", self.repeat)
            await broker.stop()
            self.findings.add_internal_errors(loop, logged.take(), self.repeat, self.last)

    async def _conversation(self, network: DirectNetwork) -> int:
        """How many inputs it took."""
        _, stranger = await network.connect(*direct.ADDRESS, lambda: Stranger(self.findings, self.repeat))
        assert isinstance(stranger, Stranger)
        count = 0
        while stranger.is_open and count < 12 and self.random.random() < 0.85:
            data = self.frame(stranger)
            self.last = data.hex()
            cut = self.random.randrange(len(data)) if self.random.random() < 0.1 else len(data)
            with timed(self.findings, "bytes of a stranger", self.repeat):
                for part in (data[:cut], data[cut:]):
                    if part and stranger.is_open:
                        stranger.send(part)
                        await asyncio.sleep(0)
                await asyncio.sleep(0.001)
            count += 1
        stranger.close()
        await asyncio.sleep(0)
        return max(count, 1)

    async def _serves_who_knows_the_password(self, network: DirectNetwork) -> None:
        client = await direct.Client.connect(network)
        with contextlib.suppress(direct.ConnectionClosed):
            await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            password = f"\0alice\0{USERS['alice']}".encode()
            answer = await client.call(SaslAuthenticateRequest(auth_bytes=password), 2)
            if not answer.error_code:
                await client.call(MetadataRequest(topics=None), 12)
                client._transport.close()
                return
        self.findings.add("who knows the password is not served", self.repeat, self.last)


def _write_keys(path: str) -> None:
    pathlib.Path(path).write_bytes(key_set(public()))


def _scram_user() -> Any:
    salted = salted_password_of("sha256", "scram-secret", b"salt", 4096)
    return credential(
        ScramCredentialUpsertion(
            name="sam", mechanism=SCRAM_SHA_256, iterations=4096, salt=b"salt", salted_password=salted
        )
    )


def one_life(seed: str, findings: Findings, count: int = INPUTS) -> None:
    """Run one life; its inputs are counted."""
    life = Life(seed, findings, count)
    try:
        run_simulated(seed, life.live)
    except (MalformedFrame, AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
        findings.add_error(error, life.repeat, life.last)
    findings.inputs["bytes before a login"] += count

"""OAUTHBEARER over real sockets: tokens that come in, every attack that does not, keys that change, sessions that end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
import time
from dataclasses import replace
from random import Random

import pytest
from evidence.world.broker import ConnectionClosed, run, until
from evidence.world.identity_provider import (
    AUDIENCE,
    ISSUER,
    claims,
    encoded,
    key,
    key_set,
    message,
    provider,
    public,
    signed,
)
from evidence.world.security import authenticate, handshake, sasl_servers, secured_broker, stranger

from oncelog import Admin, Consumer, Producer, sync
from oncelog.broker.config.bearer_config import BearerConfig, KeysConfig
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network import bearer_tokens
from oncelog.broker.network.bearer_tokens import BearerTokens
from oncelog.core.json_web_token import TokenRules, unsigned_token
from oncelog.core.sasl.oauthbearer import DOCUMENT, NotVerified, Verified
from oncelog.errors import AuthenticationFailed, ErrorCode
from oncelog.host.json_web_keys import ALGORITHMS
from oncelog.host.network import RealNetwork
from oncelog.host.web import web_address
from oncelog.testing.broker import TestBroker
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from oncelog.wire.messages.metadata import MetadataRequest

E = ErrorCode
URL = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.fixture
def keys_file(tmp_path):
    """A key set with two keys of RSA and one of EC."""
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(public("first"), public("second"), public("curve", "ES256")))
    return path


@contextlib.asynccontextmanager
async def bearer_broker(path, **config):
    given = {
        "sasl_enabled_mechanisms": "OAUTHBEARER,PLAIN",
        "sasl_oauthbearer_expected_audience": AUDIENCE,
        "sasl_oauthbearer_expected_issuer": ISSUER,
        **({"sasl_oauthbearer_jwks_endpoint_url": f"file:{path}"} if path else {}),
    }
    async with secured_broker(**given | config) as broker:
        yield broker


async def show(client, token, **options):
    """The last answer to a token, the client's goodbye included."""
    assert (await handshake(client, "OAUTHBEARER")).error_code == E.NONE
    answer = await authenticate(client, message(token, **options))
    if answer.error_code == E.NONE and bytes(answer.auth_bytes):
        assert bytes(answer.auth_bytes) == DOCUMENT.encode()
        answer = await authenticate(client, b"\x01")
    return answer


async def is_served(client):
    return (await client.call(MetadataRequest(topics=[]), 12)).cluster_id


async def is_closed(client):
    with pytest.raises(ConnectionClosed):
        await client.frame()
    return True


def test_a_token_comes_in_and_its_session_ends_with_it(keys_file, caplog):
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with bearer_broker(keys_file) as broker:
            for token in (
                signed(),
                signed(name="second"),
                signed(claims(aud=["x", AUDIENCE])),
                signed(algorithm="PS256"),
                signed(algorithm="ES256", name="curve"),
                signed(header={"kid": None}),
                signed(header={"typ": "at+jwt", "x5t": "abc", "nonce": "of some provider"}),
            ):
                client = await stranger(broker)
                answer = await show(client, token, name="olga", extensions="trace=abc\x01")
                assert (answer.error_code, bytes(answer.auth_bytes)) == (E.NONE, b"")
                assert 590_000 < answer.session_lifetime_ms <= 600_000
                assert await is_served(client)
            answer = await client.call(CreateDelegationTokenRequest())
            assert answer.error_code == E.DELEGATION_TOKEN_AUTH_DISABLED
            short = await stranger(broker)
            now_s = time.time()
            assert (await show(short, signed(claims(exp=now_s + 1.2)))).session_lifetime_ms <= 1_200
            assert await is_served(short)
            await asyncio.sleep(1.3)
            short.send(MetadataRequest(topics=[]), 12)
            assert await is_closed(short)

    run(work())
    said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
    assert {(each["event"], each["principal"], each["mechanism"]) for each in said[:7]} == {
        ("login", "User:olga", "OAUTHBEARER")
    }
    assert said[-1]["event"] == "session ended"


def attacks():
    now_s = time.time()
    good = signed()
    header, payload, signature = good.split(".")
    public_key = key()
    pem, der = public_key.as_pem(private=False), public_key.as_der(private=False)
    stranger_key = key("strangers")
    jwk = stranger_key.as_dict(private=False)
    yield "no signature, alg none", unsigned_token(claims()), "algorithm is not believed"
    for name in ("None", "NONE", "nOnE", ""):
        yield f"alg {name!r}", f"{encoded({'alg': name})}.{payload}.", "algorithm is not believed"
    yield "alg none with a signature", f"{encoded({'alg': 'none'})}.{payload}.{signature}", "algorithm is not believed"
    yield "a signature left out", f"{header}.{payload}.", "signature is wrong"
    yield "a signature of zeros", f"{header}.{payload}.{encoded(bytes(256))}", "signature is wrong"
    for secret, what in ((pem, "PEM"), (der, "DER"), (pem.strip(), "PEM without its last line's end")):
        for algorithm in ("HS256", "HS384", "HS512"):
            forged = signed(algorithm=algorithm, with_key=secret)
            yield f"{algorithm} with the public key in {what}", forged, "algorithm is not believed"
    yield "ES256 under an RSA key", signed(algorithm="ES256", name="first"), "no key fits"
    yield "RS256 under a curve's key", signed(name="curve", with_key=key("first")), "no key fits"
    yield (
        "a curve's zero signature",
        f"{encoded({'alg': 'ES256', 'kid': 'curve'})}.{payload}.{encoded(bytes(64))}",
        "wrong",
    )
    yield "another's key under our kid", signed(with_key=stranger_key), "signature is wrong"
    yield "another of our keys", signed(name="second", with_key=key("first")), "signature is wrong"
    yield "an unknown kid", signed(name="strangers"), "no key has its kid"
    yield "a kid that is a path", signed(header={"kid": "../../dev/null"}), "no key has its kid"
    yield "a kid that is a query", signed(header={"kid": "' or 1=1 --"}), "no key has its kid"
    yield "an empty kid, another's key", signed(header={"kid": ""}, with_key=stranger_key), "signature is wrong"
    yield "its own key in the header", signed(header={"jwk": jwk}, with_key=stranger_key), "signature is wrong"
    for name in ("jku", "x5u"):
        yield f"a key's address in {name}", signed(header={name: "http://127.0.0.1:1/"}, with_key=stranger_key), "wrong"
    yield "a certificate in the header", signed(header={"x5c": ["AAAA"]}, with_key=stranger_key), "wrong"
    yield "a critical extension", signed(header={"crit": ["x"], "x": 1}), "must be understood"
    yield "a payload that is not encoded", signed(header={"crit": ["b64"], "b64": False}), "must be understood"
    yield "other claims", f"{header}.{encoded(claims(sub='admin'))}.{signature}", "signature is wrong"
    yield "another header", f"{encoded({'alg': 'RS256', 'kid': 'first', 'x': 1})}.{payload}.{signature}", "is wrong"
    yield "RS512 said, RS256 made", f"{encoded({'alg': 'RS512', 'kid': 'first'})}.{payload}.{signature}", "is wrong"
    yield "members twice", signed('{"sub":"olga","sub":"admin","iat":1,"exp":99999999999}'), "stands twice"
    yield "expired", signed(claims(exp=now_s - 1)), "expired"
    yield "expired long ago", signed(claims(exp=1)), "expired"
    yield "no end", signed(claims(exp=None)), "exp is no time"
    yield "an end as text", signed(claims(exp="99999999999")), "exp is no time"
    yield "an end at 1e400", signed('{"sub":"olga","iat":1,"exp":1e400}'), "exp is no time"
    yield "not yet", signed(claims(nbf=now_s + 100)), "does not hold yet"
    yield "issued tomorrow", signed(claims(iat=now_s + 86_400, exp=now_s + 99_999)), "in the future"
    yield "never issued", signed(claims(iat=None)), "iat is no time"
    yield "another audience", signed(claims(aud="somebody else's")), "another audience"
    yield "no audience", signed(claims(aud=None)), "another audience"
    yield "part of the audience", signed(claims(aud=AUDIENCE[:-1])), "another audience"
    yield "another issuer", signed(claims(iss=ISSUER + "/")), "issuer"
    yield "nobody", signed(claims(sub=None)), "sub is no name"
    yield "a blank name", signed(claims(sub=" ")), "sub is no name"
    yield "a name of two lines", signed(claims(sub="olga\nlogin ok")), "sub is no name"
    yield "names in a list", signed(claims(sub=["olga", "admin"])), "sub is no name"
    yield "half a letter", signed(claims(sub="\ud800")), "sub is no name"
    yield "five parts", f"{good}.a.b", "three parts"
    yield "no JSON", signed("}{"), "not JSON"
    yield "a list", signed([1, 2]), "no JSON object"
    yield "deep", signed("[" * 30_000), "not JSON"


def test_attacks(keys_file, caplog):
    """Each is answered as Kafka answers, `{"status":"invalid_token"}` whatever it was; the log says why, and no token."""
    caplog.set_level(logging.INFO, "oncelog.audit")
    tried = list(attacks())

    async def work():
        async with bearer_broker(keys_file) as broker:
            for name, token, reason in tried:
                client = await stranger(broker)
                answer = await show(client, token)
                assert (answer.error_code, answer.error_message) == (E.SASL_AUTHENTICATION_FAILED, DOCUMENT), name
                assert await is_closed(client), name
                (tokens,) = broker.server._secured._bearer_tokens
                found = tokens.verify(token)
                assert isinstance(found, NotVerified), name
                assert reason in found.reason, name
                broker.server.failures._counts.clear()
            assert broker.metrics.count("authentications_failed") == len(tried)
            assert broker.metrics.count("authentications") == 0

    run(work())
    assert len(tried) >= 50
    log = "\n".join(record.getMessage() for record in caplog.records)
    assert not any(token in log for _, token, _ in tried)


def test_behind_a_refused_token_no_other_is_taken(keys_file):
    """Apache Kafka takes one: twenty tokens in forty milliseconds, without its delay."""

    async def work():
        async with bearer_broker(keys_file) as broker:
            client = await stranger(broker)
            await handshake(client, "OAUTHBEARER")
            refused = await authenticate(client, message(unsigned_token(claims())))
            assert bytes(refused.auth_bytes) == DOCUMENT.encode()
            answer = await authenticate(client, message(signed()))
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED
            assert await is_closed(client)
            other = await stranger(broker)
            answer = await show(other, signed(), name="admin")
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED
            malformed = await stranger(broker)
            await handshake(malformed, "OAUTHBEARER")
            answer = await authenticate(malformed, b"n,,\x01auth=Basic x\x01\x01")
            assert (answer.error_code, bytes(answer.auth_bytes)) == (E.SASL_AUTHENTICATION_FAILED, b"")

    run(work())


def test_a_session_goes_on_with_a_new_token_of_the_same_holder(keys_file):
    async def work():
        async with bearer_broker(keys_file, connections_max_reauth_ms=60_000) as broker:
            client = await stranger(broker)
            now_s = time.time()
            assert (await show(client, signed(claims(exp=now_s + 2)))).session_lifetime_ms <= 2_000
            await asyncio.sleep(1.05)
            assert (await show(client, signed(claims()))).session_lifetime_ms == 60_000
            await asyncio.sleep(1.05)
            assert await is_served(client), "longer than the first token"
            assert (await show(client, signed(claims(sub="admin")))).error_code == E.SASL_AUTHENTICATION_FAILED
            assert await is_closed(client)

    run(work())


def test_unsigned_tokens_only_where_the_switch_says_so(keys_file):
    async def work():
        async with bearer_broker(None, oncelog_oauthbearer_unsecured=True) as broker:
            client = await stranger(broker)
            assert (await show(client, unsigned_token(claims(iat=None)))).error_code == E.NONE
            assert await is_served(client)
            for token in (signed(), unsigned_token(claims()) + "AAAA", unsigned_token(claims(exp=1))):
                client = await stranger(broker)
                assert (await show(client, token)).error_code == E.SASL_AUTHENTICATION_FAILED

    run(work())
    with pytest.raises(ConfigInvalid, match="does not say whose tokens are believed"):
        run(bearer_broker(None).__aenter__())


@pytest.mark.parametrize(
    ("text", "says"), [(None, "No such file"), (b"{}", "no list of"), (b'{"keys": []}', "no key for")]
)
def test_a_file_that_is_no_key_set_stops_the_start(tmp_path, text, says):
    path = tmp_path / "keys.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ConfigInvalid, match=says) as refused:
        run(bearer_broker(path).__aenter__())
    assert str(path) in str(refused.value)


# keys that change


RULES = TokenRules(ALGORITHMS)


def tokens_of(config, now_s=time.time):
    metrics = Metrics()
    return BearerTokens(BearerConfig(RULES, config), RealNetwork(), Random(1), metrics, now_s), metrics


@contextlib.asynccontextmanager
async def running(tokens):
    task = asyncio.get_running_loop().create_task(tokens.run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def is_good(tokens, **options):
    return isinstance(tokens.verify(signed(**options)), Verified)


def test_keys_are_rotated(monkeypatch):
    """By time; an unknown kid has them asked for early, and only so often."""

    async def work():
        async with provider() as found:
            found.answers["/keys"] = key_set(public("first"))
            config = KeysConfig("", web_address(found.url("/keys")), 3_600_000, 10, 20)
            tokens, metrics = tokens_of(config)
            assert tokens.verify(signed()) == NotVerified("there are no keys yet", "olga")
            async with running(tokens):
                await until(lambda: metrics.count("oauthbearer_key_sets") == 1)
                assert is_good(tokens)
                found.answers["/keys"] = key_set(public("second"))
                assert not is_good(tokens, name="second"), "its own way has no network on it"
                await until(lambda: metrics.count("oauthbearer_key_sets") == 2)
                assert is_good(tokens, name="second")
                assert not is_good(tokens, name="first"), "what was taken out is not believed"
                for at in range(50):
                    assert not is_good(tokens, header={"kid": f"k{at}"}, with_key=key())
                    await asyncio.sleep(0)
                await asyncio.sleep(0.05)
                assert len(found.asked) == 2
                monkeypatch.setattr(bearer_tokens, "EARLY_INTERVAL_S", 0.0)
                found.answers["/keys"] = key_set(public("third"))
                assert not is_good(tokens, name="third")
                await until(lambda: is_good(tokens, name="third"))
            by_time, counted = tokens_of(replace(config, refresh_ms=20))
            async with running(by_time):
                await until(lambda: counted.count("oauthbearer_key_sets") == 1)
                found.answers["/keys"] = key_set(public("first"))
                await until(lambda: is_good(by_time))

    run(work())


def test_keys_that_cannot_be_had_stay_and_are_asked_for_with_back_off(caplog):
    async def work():
        async with provider() as found:
            found.answers["/keys"] = key_set(public("first"))
            found.status = 503
            tokens, metrics = tokens_of(KeysConfig("", web_address(found.url("/keys")), 20, 5, 40))
            async with running(tokens):
                await until(lambda: metrics.count("oauthbearer_key_set_failures") >= 3)
                assert not is_good(tokens)
                found.status = 200
                await until(lambda: is_good(tokens))
                before = metrics.count("oauthbearer_key_set_failures")
                for broken in (b"{}", b"<html>", key_set({"kty": "oct", "k": "AAAA"})):
                    found.answers["/keys"] = broken
                    await until(lambda before=before: metrics.count("oauthbearer_key_set_failures") > before)
                    before = metrics.count("oauthbearer_key_set_failures")
                    assert is_good(tokens)

    run(work())
    said = [record.getMessage() for record in caplog.records if "cannot be had" in record.getMessage()]
    assert len(said) == len(set(said)), "the same is said once"
    assert any("no token is taken until they can" in each for each in said)
    assert any("those in force stay" in each for each in said)


def test_a_file_is_read_again(keys_file, monkeypatch):
    monkeypatch.setattr(bearer_tokens, "FILE_INTERVAL_S", 0.01)

    async def work():
        tokens, metrics = tokens_of(KeysConfig(str(keys_file), None, 3_600_000, 5, 10))
        tokens.check()
        assert is_good(tokens)
        async with running(tokens):
            keys_file.write_bytes(key_set(public("third")))
            await until(lambda: is_good(tokens, name="third"))
            assert not is_good(tokens)
            keys_file.write_bytes(b"half a fil")
            await until(lambda: metrics.count("oauthbearer_key_set_failures") >= 1)
            assert is_good(tokens, name="third")

    run(work())


def test_a_broker_starts_without_its_provider():
    """Apache Kafka does not. Nobody comes in by a token until it answers; other mechanisms are served."""

    async def work():
        async with provider() as found:
            found.status = 500
            found.answers["/keys"] = key_set()
            config = {"sasl_oauthbearer_jwks_endpoint_url": found.url("/keys")}
            config["sasl_oauthbearer_jwks_endpoint_retry_backoff_ms"] = 5
            config["sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms"] = 10
            async with bearer_broker(None, **config) as broker:
                client = await stranger(broker)
                assert (await show(client, signed())).error_code == E.SASL_AUTHENTICATION_FAILED
                found.status = 200
                await until(lambda: broker.metrics.count("oauthbearer_key_sets") == 1)
                client = await stranger(broker)
                assert (await show(client, signed())).error_code == E.NONE

    run(work())


# our clients


def test_our_clients_through_several_tokens(keys_file):
    """Transactions written and read while tokens end: nobody notices. A provider that fails meanwhile is asked again."""
    asked = []

    async def ask():
        asked.append(None)
        if len(asked) % 4 == 3:
            raise RuntimeError("the vault is shut")
        return signed(claims(exp=time.time() + 2.5))

    async def work():
        async with bearer_broker(keys_file, num_partitions=1) as broker:
            security = {
                "bootstrap_servers": sasl_servers(broker),
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": ask,
            }
            reading = {"group_id": "g", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            read = []
            async with (
                Producer(**security, transactional_id="t") as producer,
                Consumer("t", **security, **reading) as consumer,
            ):
                for number in range(30):
                    async with producer.transaction():
                        await producer.send("t", b"%d" % number)
                    while len(read) <= number:
                        read += [record.value for record in await consumer.poll(1_000)]
                    await asyncio.sleep(0.15)
            assert read == [b"%d" % number for number in range(30)]
            assert broker.metrics.count("reauthentications") >= 2
            assert broker.metrics.count("authentications_failed") == 0
            assert len(asked) >= 3

    run(work())


def test_our_clients_and_a_refused_token(keys_file):
    """Raised at once, with the broker's words and no token; the next one is a new one."""
    given = [signed(claims(aud="other")), signed()]

    async def work():
        async with bearer_broker(keys_file) as broker:
            security = {
                "bootstrap_servers": sasl_servers(broker),
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": lambda: given.pop(0),
            }
            with pytest.raises(AuthenticationFailed, match=r"OAUTHBEARER at .*invalid_token") as refused:
                async with Admin(**security):
                    pass
            assert "eyJ" not in str(refused.value)
            async with Admin(**security) as admin:
                assert (await admin.describe_cluster()).cluster_id == broker.cluster_id
            not_a_token = security | {"sasl_oauth_token_provider": lambda: "a b"}
            with pytest.raises(AuthenticationFailed, match="letters that no bearer token has"):
                async with Admin(**not_a_token):
                    pass

    run(work())


def test_client_credentials_from_end_to_end():
    """One provider: its keys to the broker, its tokens to clients; its keys are rotated in between."""

    async def work():
        async with provider() as found:
            found.answers["/keys"] = key_set(public("first"))
            found.answers["/token"] = lambda: b'{"access_token": "%s"}' % signed(claims(sub="batch")).encode()
            config = {"sasl_oauthbearer_jwks_endpoint_url": found.url("/keys")}
            async with bearer_broker(None, **config) as broker:
                await until(lambda: broker.metrics.count("oauthbearer_key_sets") == 1)
                security = {
                    "bootstrap.servers": sasl_servers(broker),
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.token.endpoint.url": found.url("/token"),
                    "sasl.oauthbearer.client.credentials.client.id": "batch",
                    "sasl.oauthbearer.client.credentials.client.secret": "word",
                }
                async with Producer.from_config(security) as producer:
                    await producer.send("t", b"x")
                second = signed(claims(sub="batch"), name="second").encode()
                found.answers["/keys"] = key_set(public("second"))
                found.answers["/token"] = b'{"access_token": "%s"}' % second
                with pytest.raises(AuthenticationFailed):  # it has the keys asked for
                    async with Admin.from_config(security):
                        pass
                await until(lambda: broker.metrics.count("oauthbearer_key_sets") == 2)
                async with Admin.from_config(security) as admin:
                    assert "t" in await admin.list_topics()

    run(work())


def test_blocking_clients_and_the_command_line(keys_file, tmp_path):
    held = tmp_path / "token"
    held.write_text(signed())
    held.chmod(0o600)
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=file:{held}\n"
    )
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        URL: f"file:{keys_file}",
    }
    with TestBroker(config) as broker:
        security = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": signed,
        }
        with sync.Admin(**security) as admin:
            admin.create_topics(["t"])
        command = [sys.executable, "-m", "oncelog", "-b", broker.bootstrap_servers, "--command-config", str(properties)]
        shown = subprocess.run([*command, "topics", "list", "-o", "json"], capture_output=True, check=True)
        assert [each["topic"] for each in json.loads(shown.stdout)] == ["t"]
        held.write_text(signed(claims(exp=1)))
        refused = subprocess.run([*command, "topics", "list"], capture_output=True, check=False, text=True)
        assert refused.returncode != 0
        assert "has expired" in refused.stderr
        assert "eyJ" not in refused.stderr

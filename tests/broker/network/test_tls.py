"""TLS listeners over real sockets, in both event loops: who is let in, who is not, and what half a handshake costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pathlib
import socket
import ssl
import warnings

import pytest
import uvloop
from evidence.world.broker import TIMEOUT_S, until
from evidence.world.security import JAAS

from oncelog import Admin, Consumer, Producer
from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.errors import AuthenticationFailed, ConfigurationError, RequestTimedOut
from oncelog.host.certificate_authority import Authority

AUTHORITY, OTHER = Authority(), Authority("another one")


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine in a loop of each kind."""

    def in_loop(work):
        async def bounded():
            async with asyncio.timeout(TIMEOUT_S):
                return await work

        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(bounded())

    return in_loop


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The paths of every certificate there is."""
    directory = tmp_path_factory.mktemp("certificates")
    found = {
        "broker": AUTHORITY.sign("broker", ["localhost", "127.0.0.1"]),
        "renewed": AUTHORITY.sign("renewed", ["127.0.0.1"]),
        "elsewhere": AUTHORITY.sign("broker", ["kafka.example.com"]),
        "nameless": AUTHORITY.sign("127.0.0.1"),
        "alice": AUTHORITY.sign([("2.5.4.10", "Org"), ("2.5.4.3", "alice")]),
        "stranger": OTHER.sign("stranger"),
        "expired": AUTHORITY.sign("expired", ["127.0.0.1"], days=(-5, -1)),
        "early": AUTHORITY.sign("early", ["127.0.0.1"], days=(1, 5)),
        "server-only": AUTHORITY.sign("server", usage="server"),
        "locked": AUTHORITY.sign("broker", ["127.0.0.1"], password="key-secret"),
    }
    paths = {name: each.write(directory, name) for name, each in found.items()}
    for name, authority in (("ca", AUTHORITY), ("other-ca", OTHER)):
        path = directory / f"{name}.pem"
        path.write_text(authority.pem)
        path.chmod(0o600)
        paths[name] = str(path)
    mixed = directory / "mixed.pem"
    mixed.write_text(found["alice"].key + found["broker"].chain)
    mixed.chmod(0o600)
    paths["mixed"] = str(mixed)
    return paths


def config(files, **values):
    given = {
        "listeners": "SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files["broker"],
        "ssl.truststore.location": files["ca"],
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=Org$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{JAAS};",
    }
    return {key: value for key, value in {**given, **values}.items() if value is not None}


IN_VAIN = {"default_api_timeout_ms": 1_000}  # for who does not come in


def client(broker, listener, files, **values):
    port = broker.addresses[listener].port
    return {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": "SSL",
        "ssl_truststore_location": files["ca"],
        "default_api_timeout_ms": 30_000,
        **values,
    }


def test_written_and_read_over_tls(run, files):
    async def work():
        async with Broker(None, config(files)) as broker:
            plain_user = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}
            for listener, more in (
                (0, {}),
                (0, {"ssl_enabled_protocols": "TLSv1.2"}),
                (1, {"ssl_keystore_location": files["alice"]}),
                (2, plain_user | {"sasl_password": "wonder-secret"}),
            ):
                security = client(broker, listener, files, **more)
                topic = f"t{listener}-{len(more)}"
                async with Producer(**security, transactional_id=topic) as producer, producer.transaction():
                    await producer.send(topic, os.urandom(500_000))
                    await producer.send(topic, b"last")
                reading = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "group_id": topic}
                async with Consumer(topic, **security, **reading) as consumer:
                    values = []
                    while len(values) < 2:
                        values += [len(record.value) for record in await consumer.poll(1_000)]
                    assert values == [500_000, 4]

    run(work())


def test_principals_of_certificates(run, files, caplog):
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with Broker(None, config(files)) as broker:
            for name in ("alice", "broker"):
                async with Admin(**client(broker, 1, files, ssl_keystore_location=files[name])):
                    pass

    run(work())
    said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
    assert [each["principal"] for each in said] == ["User:alice", "User:CN=broker"]
    assert {(each["listener"], each["tls"]) for each in said} == {("MUTUAL", "TLSv1.3")}


def test_a_subject_that_no_rule_is_about_does_not_come_in(run, files):
    async def work():
        rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=Org$/$1/"}
        async with Broker(None, config(files, **rules)) as broker:
            with pytest.raises(RequestTimedOut):
                await Admin(**client(broker, 1, files, ssl_keystore_location=files["broker"], **IN_VAIN)).start()
            assert broker.metrics.count("authentications_failed") > 0

    run(work())


@pytest.mark.parametrize("name", [None, "stranger", "expired", "early", "server-only"])
def test_certificates_that_are_not_let_in(run, files, name):
    async def work():
        async with Broker(None, config(files)) as broker:
            more = {} if name is None else {"ssl_keystore_location": files[name]}
            with pytest.raises((RequestTimedOut, AuthenticationFailed)):
                await Admin(**client(broker, 1, files, **more, **IN_VAIN)).start()
            assert broker.metrics.count("authentications_failed") > 0
            assert broker.metrics.count("authentications") == 0

    run(work())


@pytest.mark.parametrize("name", ["stranger", "expired", "server-only"])
def test_where_certificates_are_only_requested_a_wrong_one_is_refused_and_none_is_nobody(run, files, name):
    async def work():
        requested = {"listener.name.mutual.ssl.client.auth": "requested"}
        async with Broker(None, config(files, **requested)) as broker:
            async with Admin(**client(broker, 1, files)):
                pass
            with pytest.raises((RequestTimedOut, AuthenticationFailed)):
                await Admin(**client(broker, 1, files, ssl_keystore_location=files[name], **IN_VAIN)).start()

    run(work())


@pytest.mark.parametrize(
    ("keystore", "trusted", "says"),
    [
        ("broker", "other-ca", "not believed"),
        ("elsewhere", "ca", "not valid for '127.0.0.1'"),
        ("nameless", "ca", "not valid for '127.0.0.1'"),
    ],
)
def test_a_broker_that_is_not_believed(run, files, keystore, trusted, says):
    async def work():
        async with Broker(None, config(files, **{"ssl.keystore.location": files[keystore]})) as broker:
            security = client(broker, 0, files, ssl_truststore_location=files[trusted])
            with pytest.raises(AuthenticationFailed, match=says):
                await Admin(**security).start()
            if trusted == "ca":
                async with Admin(**security, ssl_endpoint_identification_algorithm=""):
                    pass

    run(work())


def test_each_side_without_tls(run, files):
    async def work():
        values = {"listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", "listener.security.protocol.map": None}
        async with Broker(None, config(files, **values)) as broker:
            with pytest.raises(RequestTimedOut, match="one without TLS"):
                await Admin(**client(broker, 0, files, security_protocol="PLAINTEXT", **IN_VAIN)).start()
            with pytest.raises(RequestTimedOut, match="is TLS spoken there"):
                await Admin(**client(broker, 1, files, **IN_VAIN)).start()

    run(work())


def test_old_versions_and_weak_ciphers_are_not_spoken(run, files):
    async def work():
        async with Broker(None, config(files)) as broker:
            for prepare in (
                lambda context: setattr(context, "maximum_version", ssl.TLSVersion.TLSv1_1),
                lambda context: (
                    setattr(context, "maximum_version", ssl.TLSVersion.TLSv1_2),
                    context.set_ciphers("ECDHE+AES:!AESGCM:@SECLEVEL=0"),
                ),
            ):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                _quietly(prepare, context)
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await asyncio.open_connection(*broker.addresses[0], ssl=context)

    run(work())


def _quietly(prepare, context):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        prepare(context)


def test_half_a_handshake_ends_in_time_and_makes_room(run, files):
    async def work():
        bounds = {"oncelog.authentication.timeout.ms": 300, "oncelog.max.unauthenticated.connections.per.ip": 3}
        async with Broker(None, config(files, **bounds)) as broker:
            async with Admin(**client(broker, 0, files)):
                open_ones = [await asyncio.open_connection(*broker.addresses[0]) for _ in range(5)]
                await until(lambda: broker.metrics.limit_hits("oncelog.max.unauthenticated.connections.per.ip") == 2)
                for reader, writer in open_ones:
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
                    writer.close()
                await until(lambda: not broker.server.strangers._held_bytes)
            assert broker.metrics.count("authentications_failed") == 5

    run(work())


def test_a_ticket_of_one_listener_is_worth_nothing_at_another(run, files):
    async def work():
        async with Broker(None, config(files)) as broker:
            context = ssl.create_default_context(cafile=files["ca"])
            context.maximum_version = ssl.TLSVersion.TLSv1_2

            def session(port, before=None):
                raw = socket.create_connection(("127.0.0.1", port))
                with context.wrap_socket(raw, server_hostname="127.0.0.1", session=before) as secured:
                    return secured.session, secured.session_reused

            loop = asyncio.get_running_loop()
            ports = [address.port for address in broker.addresses]
            first, _ = await loop.run_in_executor(None, session, ports[0])
            _, is_reused = await loop.run_in_executor(None, session, ports[0], first)
            assert is_reused
            _, is_reused = await loop.run_in_executor(None, session, ports[2], first)
            assert not is_reused

    run(work())


def test_a_key_with_a_password_and_keys_in_the_configuration(run, files):
    async def work():
        locked = {"ssl.keystore.location": files["locked"], "ssl.key.password": "key-secret"}
        async with Broker(None, config(files, **locked)) as broker, Admin(**client(broker, 0, files)):
            pass
        inline = AUTHORITY.sign("inline", ["127.0.0.1"])
        values = {
            "ssl.keystore.location": None,
            "ssl.keystore.key": inline.key,
            "ssl.keystore.certificate.chain": inline.chain.replace("\n", "\\n"),
            "ssl.truststore.location": None,
            "ssl.truststore.certificates": AUTHORITY.pem,
        }
        async with Broker(None, config(files, **values)) as broker:
            assert "PRIVATE KEY" not in repr(broker.config) + repr(vars(broker.server))
            async with Admin(**client(broker, 0, files)):
                pass

    run(work())


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location does not say"),
        ({"ssl.keystore.location": "/nowhere/at.all"}, "/nowhere/at.all: No such file"),
        ({"ssl.keystore.location": "ca"}, "no key with its certificate"),
        ({"ssl.keystore.location": "mixed"}, "the key does not fit the certificate"),
        ({"ssl.keystore.location": "expired"}, "has expired: `oncelog secure DIRECTORY --renew`"),
        ({"ssl.keystore.location": "early"}, "does not hold yet"),
        ({"ssl.keystore.location": "locked"}, "ssl.key.password is not set"),
        ({"ssl.keystore.location": "locked", "ssl.key.password": "key-wrong"}, "password is wrong"),
        ({"ssl.truststore.type": "PKCS12"}, "PEM stands there, and the type says PKCS12"),
        ({"ssl.keystore.type": "XYZ"}, "'XYZ' is unknown"),
        ({"ssl.truststore.location": None}, "needs ssl.truststore.location"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols: 'TLSv1.1' is not spoken"),
        ({"ssl.cipher.suites": "NONSENSE"}, "ssl.cipher.suites"),
        ({"ssl.keystore.password": "key-wrong"}, "a store in PEM has no password"),
        ({"ssl.keystore.key": "x"}, "exclude each other"),
        ({"ssl.keystore.key": "x", "ssl.keystore.location": None}, "go together"),
    ],
)
def test_what_cannot_be_is_one_line_at_the_start(files, values, says):
    named = {key: files.get(value, value) if key.endswith("location") else value for key, value in values.items()}

    async def work():
        with pytest.raises(ConfigInvalid, match=says) as refused:
            await Broker(None, config(files, **named)).start()
        assert "\n" not in str(refused.value)
        assert "key-wrong" not in str(refused.value)

    asyncio.run(work())


def test_a_key_that_others_can_read_is_refused(files, tmp_path):
    path = tmp_path / "open.pem"
    path.write_text(pathlib.Path(files["broker"]).read_text())
    path.chmod(0o644)

    async def work():
        with pytest.raises(ConfigInvalid, match=r"others can read it \(mode 0644\): chmod 600"):
            await Broker(None, config(files, **{"ssl.keystore.location": str(path)})).start()

    asyncio.run(work())
    with pytest.raises(ConfigurationError, match="others can read it"):
        Producer(security_protocol="SSL", ssl_keystore_location=str(path))


def test_cipher_suites_by_their_names_at_iana(run, files):
    async def work():
        suites = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256"}
        async with Broker(None, config(files, **suites)) as broker:
            security = client(broker, 0, files, ssl_enabled_protocols="TLSv1.2")
            async with Admin(**security):
                pass
            with pytest.raises(AuthenticationFailed, match="none of our TLS versions with our ciphers"):
                await Admin(**security, ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384").start()

    run(work())


def test_certificates_are_exchanged_while_it_runs(run, files, tmp_path, caplog):
    """A new certificate, then one that does not fit (kept out, said once), then another authority for clients."""
    caplog.set_level(logging.INFO, "oncelog")
    store, trusted = tmp_path / "store.pem", tmp_path / "trusted.pem"

    def put(path, text):
        new = path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)

    def content(name):
        return pathlib.Path(files[name]).read_text()

    async def shown(broker, listener=0):
        context = ssl.create_default_context(cafile=files["ca"])
        if listener:
            context.load_cert_chain(files["alice"])
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose refusals come with the handshake
        _, writer = await asyncio.open_connection(*broker.addresses[listener], ssl=context, server_hostname="127.0.0.1")
        subject = writer.get_extra_info("peercert")["subject"]
        writer.close()
        return subject[0][0][1]

    async def work():
        put(store, content("broker"))
        put(trusted, content("ca"))
        values = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(trusted)}
        async with Broker(None, config(files, **values)) as broker:
            handshakes = broker.server._secured._tls
            async with Admin(**client(broker, 0, files)) as before:
                put(store, content("renewed"))
                [each.reload() for each in handshakes]
                assert await shown(broker) == "renewed"
                assert len(await before.list_topics()) == 0, "who is connected stays"
            put(store, content("mixed"))
            for _ in range(3):
                [each.reload() for each in handshakes]
            assert await shown(broker) == "renewed"
            kept = [record.getMessage() for record in caplog.records if "are kept" in record.getMessage()]
            assert len(kept) == 3, "once for each listener"
            assert "the key does not fit the certificate" in kept[0]
            put(store, content("renewed"))
            assert await shown(broker, 1) == "renewed"
            put(trusted, content("other-ca"))
            [each.reload() for each in handshakes]
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await shown(broker, 1)
            assert broker.metrics.count("tls_reloads") == 6

    run(work())


def test_what_a_fault_keeps_out_is_said_once_for_each_change(run, files, tmp_path, caplog):
    """A truststore was passed over in silence while the keystore had a fault, and a fault that came back was not told."""
    store, trusted = tmp_path / "store.pem", tmp_path / "trusted.pem"

    def put(path, text):
        new = path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)

    def content(name):
        return pathlib.Path(files[name]).read_text()

    async def work():
        put(store, content("broker"))
        put(trusted, content("ca"))
        values = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(trusted)}
        async with Broker(None, config(files, **values)) as broker:
            handshakes = broker.server._secured._tls[0]

            def told():
                caplog.clear()
                for _ in range(2):
                    handshakes.reload()
                return [record.getMessage() for record in caplog.records if "are kept" in record.getMessage()]

            put(store, "nothing")
            (first,) = told()
            assert "neither PEM" in first
            assert "not in force" not in first
            put(trusted, content("other-ca"))
            (second,) = told()
            assert second == f"{first}; not in force for it: the new content of ssl.truststore.location"
            put(trusted, content("other-ca") + content("ca"))
            assert told() == [second]
            put(trusted, content("ca"))
            assert told() == [first]
            put(store, content("broker"))
            assert told() == []
            put(store, "nothing")
            assert told() == [first]
            put(trusted, "nothing, too")
            (last,) = told()
            assert "ssl.truststore.location: " in last
            put(store, content("renewed"))
            assert told() == [f"{last}; not in force for it: the new content of ssl.keystore.location"]
            put(trusted, content("other-ca"))
            assert told() == []
            assert broker.metrics.count("tls_reloads") == 1

    run(work())


def test_a_ticket_from_before_a_reload_is_worth_nothing(run, files, tmp_path):
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(pathlib.Path(files["ca"]).read_text())
    other = pathlib.Path(files["other-ca"]).read_text()

    async def work():
        async with Broker(None, config(files, **{"ssl.truststore.location": str(trusted)})) as broker:
            context = ssl.create_default_context(cafile=files["ca"])
            context.load_cert_chain(files["alice"])
            context.maximum_version = ssl.TLSVersion.TLSv1_2

            def session(before=None):
                raw = socket.create_connection(("127.0.0.1", broker.addresses[1].port))
                with context.wrap_socket(raw, server_hostname="127.0.0.1", session=before) as secured:
                    return secured.session, secured.session_reused

            loop = asyncio.get_running_loop()
            first, _ = await loop.run_in_executor(None, session)
            assert (await loop.run_in_executor(None, session, first))[1]
            trusted.write_text(other)
            [each.reload() for each in broker.server._secured._tls]
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await loop.run_in_executor(None, session, first)

    run(work())

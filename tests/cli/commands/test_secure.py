"""`oncelog secure`: what it makes lets its users in and nobody else; nothing is overwritten, printed or left half."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import Result
from evidence.world.ports import free_port

from oncelog import errors, sync
from oncelog.broker.config.config import properties_from
from oncelog.cli.properties_file import read_properties
from oncelog.cli.secure import home as home_module
from oncelog.cli.secure.home import Home
from oncelog.testing import TestBroker
from tests.cli.world import oncelog

EVERYWHERE = "0.0.0.0"
LONG = os.environ.get("ONCELOG_LONG", "0") != "0"  # every operation, not one in three or five


def secure(*arguments: object, status: int = 0) -> Result:
    result = oncelog("secure", *arguments)
    assert result.exit_code == status, (result.stdout, result.stderr)
    return result


def rows(*arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(secure(*arguments, "-o", "json").stdout)
    return found


def broker_of(home: Home, certificates_port: int = 0) -> TestBroker:
    """A broker with the configuration that was made, at ports that are free; of the second listener, at this one."""
    values: dict[str, Any] = properties_from(home.server_properties.read_text())
    names = [each.split(":")[0] for each in values["listeners"].split(",")]
    ports = dict(zip(names, (0, certificates_port), strict=False))
    values["listeners"] = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    del values["advertised.listeners"]
    return TestBroker(values)


def lets_in(broker: TestBroker, file: Path, port: int = 0) -> bool:
    servers = f"127.0.0.1:{port}" if port else broker.bootstrap_servers
    config = read_properties(str(file)) | {"bootstrap.servers": servers, "default.api.timeout.ms": "20000"}
    try:
        with sync.Admin.from_config(config) as admin:
            admin.list_topics()
    except errors.AuthenticationFailed:
        return False
    return True


def modes(path: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.rglob("*")}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("secure") / "home")
    secure(home.path, "--user", "alice", "--user", "bob", "--mutual-tls", "--host", "kafka.example.com")
    return home


@pytest.fixture
def copy(secured: Home, tmp_path: Path) -> Home:
    """One to change; its configuration still names the first one's paths."""
    path = Path(shutil.copytree(secured.path, tmp_path / "home"))
    text = (path / "server.properties").read_text().replace(str(secured.path), str(path))
    (path / "server.properties").write_text(text)
    return Home(path)


def test_its_users_come_in_and_nobody_else(secured: Home, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.properties"
    text = (secured.client("alice") / "client.properties").read_text()
    wrong.write_text(text.replace('username="alice"', 'username="bob"'))
    wrong.chmod(0o600)
    with broker_of(secured) as broker:
        for user in ("admin", "alice", "bob"):
            assert lets_in(broker, secured.client(user) / "client.properties")
        assert not lets_in(broker, wrong)


def test_what_it_prints_is_what_clients_need(copy: Home) -> None:
    """Each text does what it says when it is copied; only the address is another here."""
    with broker_of(copy) as broker:
        found = {row["client"]: row["snippet"] for row in rows(copy.path, "--user", "alice")}
        texts = {
            client: text.replace("kafka.example.com:9093", broker.bootstrap_servers) for client, text in found.items()
        }
        own = copy.client("admin") / "client.properties"
        as_admin = ("--command-config", own, "-b", broker.bootstrap_servers, "-y")
        assert oncelog(*as_admin, "topics", "create", "t").exit_code == 0

        told: list[confluent_kafka.KafkaError | None] = []
        for _ in range(2):  # before a rule allows it, and after
            producer = eval(texts["confluent-kafka"], {"confluent_kafka": confluent_kafka, "pathlib": pathlib})
            producer.produce("t", b"x", on_delivery=lambda error, _: told.append(error))
            producer.flush(60)
            rule = ("--principal", "User:alice", "--operation", "write")
            assert oncelog(*as_admin, "acls", "add", "--topic", "t", *rule).exit_code == 0
        assert told[0] is not None
        assert told[0].code() != confluent_kafka.KafkaError._AUTHENTICATION
        assert told[1] is None

        with eval(texts["oncelog in Python"], {"oncelog": sync, "pathlib": pathlib}) as producer:
            producer.send("t", b"y").result()
        spark: dict[str, Any] = {"pathlib": pathlib}
        exec(texts["Spark"].partition("spark.readStream")[0], spark)
        config = {key.removeprefix("kafka."): value for key, value in spark["options"].items()}
        with sync.Admin.from_config(config) as admin:
            assert "t" in admin.list_topics()
        words = texts["oncelog's tools"].split()
        assert oncelog(*words[1:], "-b", broker.bootstrap_servers).exit_code == 0
        assert Path(texts["Java"].split('"')[1]).exists()


def test_nobody_else_can_read_what_is_secret(secured: Home) -> None:
    assert stat.S_IMODE(secured.path.stat().st_mode) == 0o700
    found = {name: mode for name, mode in modes(secured.path).items() if not name.endswith(("index", "log"))}
    secret = {
        "server.properties",
        "ca-key.pem",
        "broker.pem",
        "password",
        "client.properties",
        "certificate.pem",
        "mutual-tls.properties",
    }
    assert {found[name] for name in secret} == {0o600}
    assert {found[name] for name in ("clients", "alice", "data")} == {0o700}
    assert found["ca.pem"] == 0o644


def test_what_it_prints_has_no_secret_unless_asked(secured: Home) -> None:
    passwords = {user: (secured.client(user) / "password").read_text().strip() for user in secured.users()}
    for how in ((), ("-o", "json"), ("-o", "tsv"), ("--user", "alice")):
        result = secure(secured.path, *how)
        assert not any(word in result.output for word in passwords.values())
        assert "nothing is changed" in result.stderr
    shown = {
        row["user"]: row["snippet"] for row in rows(secured.path, "--show-passwords") if row["client"] == "password"
    }
    assert shown == {"admin": passwords["admin"]}
    assert passwords["bob"] in secure(secured.path, "--user", "bob", "--show-passwords").stdout
    assert len(set(passwords.values())) == 3
    assert all(len(word) >= 32 for word in passwords.values())


def test_rows_for_machines(secured: Home) -> None:
    found = rows(secured.path, "--user", "alice", "--user", "bob")
    assert {tuple(row) for row in found} == {("client", "user", "files", "snippet")}
    assert {row["user"] for row in found} == {None, "alice", "bob"}
    assert all(Path(name).exists() for row in found for name in row["files"])
    assert found[0]["snippet"] == f"oncelog serve --config {secured.server_properties}"


def test_where_others_reach_it(secured: Home) -> None:
    values = properties_from(secured.server_properties.read_text())
    assert values["listeners"] == f"CLIENTS://{EVERYWHERE}:9093,CERTIFICATES://{EVERYWHERE}:9094"
    assert values["advertised.listeners"] == "CLIENTS://kafka.example.com:9093,CERTIFICATES://kafka.example.com:9094"
    assert read_properties(str(secured.client("bob") / "mutual-tls.properties"))["bootstrap.servers"].endswith(":9094")


def test_a_certificate_is_who_it_names(secured: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "oncelog.audit")
    port = free_port()
    with broker_of(secured, port) as broker:
        assert lets_in(broker, secured.client("alice") / "mutual-tls.properties", port)
        said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
        assert {(each["principal"], each["listener"]) for each in said} == {("User:alice", "CERTIFICATES")}
        config = read_properties(str(secured.client("alice") / "mutual-tls.properties"))
        config = {key: value for key, value in config.items() if not key.startswith("ssl.keystore")}
        config |= {"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": "1000"}
        with pytest.raises((errors.AuthenticationFailed, errors.RequestTimedOut)):
            sync.Admin.from_config(config).start()


def test_more_users_of_a_broker_that_runs_and_of_one_that_does_not(copy: Home) -> None:
    before = (copy.client("alice") / "password").read_text()
    secure(copy.path, "--user", "carol", status=2)
    assert not copy.client("carol").exists(), "stdin is no terminal"
    secure(copy.path, "--user", "carol", "--user", "alice", "-y")
    with broker_of(copy) as broker:
        assert lets_in(broker, copy.client("carol") / "client.properties")
        own = copy.client("admin") / "client.properties"
        text = own.read_text()
        own.write_text(text.replace("kafka.example.com:9093", broker.bootstrap_servers))
        secure(copy.path, "--user", "dave", "-y")
        assert lets_in(broker, copy.client("dave") / "client.properties")
        assert lets_in(broker, copy.client("alice") / "client.properties")
    assert copy.users() == ["admin", "alice", "bob", "carol", "dave"]
    assert copy.not_stored_yet() == []
    assert (copy.client("alice") / "password").read_text() == before
    assert (copy.client("dave") / "certificate.pem").exists()


def test_a_broker_that_its_administrator_does_not_reach(copy: Home) -> None:
    with broker_of(copy):  # at another address than its files say
        own = copy.client("admin") / "client.properties"
        own.write_text(own.read_text().replace("kafka.example.com:9093", "127.0.0.1:1"))
        result = secure(copy.path, "--user", "carol", "-y", "--timeout", "500ms", status=1)
        assert "users cannot be stored" in result.stderr
        assert "a broker runs there" in result.stderr
        assert not copy.client("carol").exists()


def test_a_credential_of_somebody_else_is_not_replaced(copy: Home) -> None:
    shutil.rmtree(copy.client("bob"))
    result = secure(copy.path, "--user", "bob", "-y", status=1)
    assert "bob: there is a credential of that name, and no password here" in result.stderr
    assert not copy.client("bob").exists()


def test_a_new_certificate_of_the_same_authority(copy: Home) -> None:
    before = {name: (copy.path / name).read_text() for name in ("broker.pem", "ca.pem", "ca-key.pem")}
    client = (copy.client("alice") / "certificate.pem").read_text()
    with broker_of(copy) as broker:
        secure(copy.path, "--renew", "-y")
        assert lets_in(broker, copy.client("alice") / "client.properties")
    after = {name: (copy.path / name).read_text() for name in before}
    assert after["broker.pem"] != before["broker.pem"]
    assert (after["ca.pem"], after["ca-key.pem"]) == (before["ca.pem"], before["ca-key.pem"])
    assert (copy.client("alice") / "certificate.pem").read_text() == client
    with broker_of(copy) as broker:
        assert lets_in(broker, copy.client("alice") / "client.properties")
    secure(copy.path, "--renew", "--mutual-tls", "--host", "new.example.com", "-y")
    assert (copy.client("alice") / "certificate.pem").read_text() != client
    assert "new.example.com" in secure(copy.path, "--renew", "--dry-run").stderr
    assert modes(copy.path)["broker.pem"] == 0o600


def test_the_authoritys_key_may_be_elsewhere(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    secure(home.path)
    home.authority_key.rename(tmp_path / "safe")
    assert "nothing is changed" in secure(home.path).stderr
    secure(home.path, "--user", "alice", "-y")
    before = home.broker.read_text()
    result = secure(home.path, "--renew", "-y", status=1)
    assert "ca-key.pem is not here (where it was taken away, bring it back for this)" in result.stderr
    assert home.broker.read_text() == before


def test_a_data_directory_that_is_there_keeps_what_it_has(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with TestBroker(data_dir=str(data), config={"node.id": 7}) as broker:
        with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"1").result()
        with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_user_scram_credential("known", "SCRAM-SHA-256", "word")
        result = secure(tmp_path / "home", "--data-dir", data, "-y", status=1)
        assert "another server uses this directory" in result.stderr
    assert "broker's data directory" in secure(data, status=2).stderr
    result = secure(tmp_path / "home", "--data-dir", data, "--user", "known", "-y", status=1)
    assert "known: there is a credential" in result.stderr
    assert not (tmp_path / "home").exists()
    secure(tmp_path / "home", "--data-dir", data, status=2)  # a change: it asks
    secure(tmp_path / "home", "--data-dir", data, "-y")
    home = Home(tmp_path / "home")
    assert home.not_stored_yet() == []
    with broker_of(home) as broker:
        config = read_properties(str(home.client("admin") / "client.properties"))
        config["bootstrap.servers"] = broker.bootstrap_servers
        with sync.Admin.from_config(config) as admin:
            assert "orders" in admin.list_topics()


REFUSED = [
    (("--user", "../x"), "1 to 64 letters"),
    (("--user", "ANONYMOUS"), "not ANONYMOUS"),
    (("--host", "a b"), "expected a name"),
    (("--host", "kafka:9092"), "expected a name"),
    (("--host", "*.example.com"), "expected a name"),
    (("--listen", "9093"), "expected HOST:PORT"),
    (("--listen", "127.0.0.1:0"), "a port from 1"),
    (("--listen", "SSL://127.0.0.1:9093"), "expected HOST:PORT"),
    (("--days", "0"), "not in the range"),
    (("--renew",), "was not made by"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in secure(tmp_path / "home", *arguments, status=2).stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\\b", "a\nb", "a ", ""])
def test_a_path_that_no_configuration_can_hold(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "a path that a configuration can hold" in secure(name, status=2).stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "127.0.0.1:1"), "--listen is for its first run"),
        (("--data-dir", "x"), "--data-dir is for its first run"),
        (("--admin", "other"), "--admin is for its first run"),
        (("--host", "x"), "--renew changes the certificate's names"),
        (("--days", "30"), "--days 30: no certificate is made without --renew"),
        (("--days", "397", "--user", "alice"), "--days 397: no certificate is made without --renew"),
    ],
)
def test_what_was_decided_once(secured: Home, arguments: tuple[str, ...], says: str) -> None:
    assert says in secure(secured.path, *arguments, status=2).stderr


def test_others_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is not empty" in secure(tmp_path, status=2).stderr
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    steps = rows(tmp_path / "home", "--user", "alice", "--dry-run")
    assert [each["step"] for each in steps] == [
        "authority",
        "certificate",
        "configuration",
        "user",
        "user",
        "credentials",
    ]
    assert list(tmp_path.iterdir()) == []


def test_without_cryptography_one_line_says_which_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509.oid", None)
    assert "pip install 'oncelog[security]'" in secure(tmp_path / "home", status=2).stderr
    assert list(tmp_path.iterdir()) == []


class Ended(BaseException):
    """The process is gone: nothing of it runs any more."""


def ending_at(monkeypatch: pytest.MonkeyPatch, number: int, error: type[BaseException]) -> Callable[[], int]:
    """The `number`-th operation on a file, or on the directories that the command makes, does not come to pass."""
    count, command = 0, threading.get_ident()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            if threading.get_ident() != command:  # a broker of other tests runs beside it, and syncs
                return real(*arguments, **more)
            count += 1
            if count == number:
                raise error
            return real(*arguments, **more)

        return operation

    for name in ("rename", "fsync", "fchmod", "unlink"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    for name in ("write_file", "make_directory"):
        for module in ("making", "new_directory"):
            place = f"oncelog.cli.secure.{module}.{name}"
            if name == "write_file" and module == "new_directory":
                continue
            monkeypatch.setattr(place, counted(getattr(home_module, name)))
    if error is Ended:
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    return lambda: count


@pytest.mark.parametrize("error", [KeyboardInterrupt, Ended])
def test_it_is_whole_or_not_there_wherever_it_ends(tmp_path: Path, error: type[BaseException]) -> None:
    number, is_over = 1, False
    while not is_over:
        with pytest.MonkeyPatch.context() as patch:
            count = ending_at(patch, number, error)
            try:
                status = oncelog("secure", tmp_path / "home").exit_code
            except Ended:
                status = -1
            is_over = count() < number
        home = Home(tmp_path / "home")
        if error is KeyboardInterrupt:
            assert status == (0 if is_over else 130)
            assert not (tmp_path / ".home.new").exists()
        assert home.is_made == home.path.exists(), f"half, at {number}"
        assert is_over <= home.is_made
        secure(home.path)
        assert [each.name for each in tmp_path.iterdir()] == ["home"]
        assert home.not_stored_yet() == []
        if is_over:
            with broker_of(home) as broker:
                assert lets_in(broker, home.client("admin") / "client.properties")
        shutil.rmtree(home.path)
        number += 1 if LONG else 5
    assert number > 20


@pytest.mark.parametrize("error", [KeyboardInterrupt, Ended])
def test_a_user_is_whole_or_completed_by_the_next_run(
    secured: Home, tmp_path: Path, error: type[BaseException]
) -> None:
    number, is_over = 1, False
    while not is_over:
        home = Home(Path(shutil.copytree(secured.path, tmp_path / str(number))))
        text = home.server_properties.read_text().replace(str(secured.path), str(home.path))
        home.server_properties.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            count = ending_at(patch, number, error)
            with contextlib.suppress(Ended):
                oncelog("secure", home.path, "--user", "carol", "-y")
            is_over = count() < number
        secure(home.path, "--user", "carol", "-y")
        assert home.not_stored_yet() == []
        assert "carol" in home.users()
        if LONG or number % 2 == 0 or is_over:
            with broker_of(home) as broker:
                assert lets_in(broker, home.client("carol") / "client.properties"), f"at {number}"
        number += 1 if LONG else 3
    assert number > 10


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is Linux's")
def test_a_full_disk_is_told_with_the_file_and_the_next_run_completes(copy: Home) -> None:
    """It was "[Errno 28] No space left on device", and no word of where."""
    opened, full = os.open, os.open("/dev/full", os.O_WRONLY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            os, "open", lambda path, *more: os.dup(full) if str(path).endswith("password") else opened(path, *more)
        )
        said = secure(copy.path, "--user", "carol", "-y", status=1).stderr
    os.close(full)
    assert "password cannot be written: No space left on device" in said
    assert "make room on the disk of" in said
    assert not home_of_carol_is_half(copy)
    secure(copy.path, "--user", "carol", "-y")
    with broker_of(copy) as broker:
        assert lets_in(broker, copy.client("carol") / "client.properties")


def home_of_carol_is_half(home: Home) -> bool:
    return "carol" in home.users() and not (home.client("carol") / "client.properties").exists()

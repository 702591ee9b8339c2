"""`--login`: a console for each person, with their rights; what they gave stands nowhere; sessions end, and are bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

with warnings.catch_warnings():  # it would rather have a client that nothing else here needs
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from oncelog import Admin, Producer
from oncelog.cli.command import Settings
from oncelog.client.admin.acls import Acl
from oncelog.console import login
from oncelog.console.login import IDLE_S, LoginGate, check_login, login_application
from oncelog.console.security import SESSION_S
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ConfigurationError
from oncelog.testing import TestBroker

ORIGIN = "http://testserver"
POST = {"x-oncelog-console": "1", "content-type": "application/json"}
PASSWORD = "e-secret ${file:/etc/passwd:root}"  # what looks like a reference is a password
USERS = {"root": "r-secret", "eve": PASSWORD, "J\u00f6rg": "ä"}
MECHANISM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[TestBroker]:
    """shared is seen by both, secret by root only; transactions are open on each."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    with TestBroker(config, security="SASL_PLAINTEXT", users=USERS) as broker:
        asyncio.run(_filled(broker))
        yield broker


async def _filled(broker: TestBroker) -> None:
    options = broker.client_options("root")
    async with Admin(**options) as admin:
        await admin.create_topics(["shared", "secret"])
        rules = [Acl("topic", "shared", "User:eve", each) for each in ("READ", "DESCRIBE")]
        await admin.create_acls(rules)
    for name, topic in (("of-shared", "shared"), ("of-secret", "secret"), ("planned", "secret")):
        producer = Producer(**options, transactional_id=name)
        await producer.start()
        producer.begin_transaction()
        await producer.send(topic, b"x")
        await producer.detach_transaction()
        await producer.stop()


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> LoginGate:
    return LoginGate(frozenset({"testserver"}), clock=clock)


@pytest.fixture
def outside(guarded: TestBroker, gate: LoginGate, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(login, "WRONG_TAKES_S", 0.0)
    settings = Settings(bootstrap_servers=guarded.bootstrap_servers, properties=MECHANISM)
    with TestClient(login_application(settings, gate, allow_writes=True), base_url=ORIGIN) as client:
        yield client


def enter(
    outside: TestClient, user: str, status: int = 200, browser: TestClient | None = None, **more: Any
) -> TestClient:
    """In a browser of somebody's own, at the same console."""
    own = browser or TestClient(outside.app, base_url=ORIGIN)
    own.portal = outside.portal
    body = json.dumps({"user": user, "password": USERS.get(user, "?"), **more})
    answer = own.post("/api/v1/login", headers=POST, content=body)
    assert answer.status_code == status, answer.text
    assert PASSWORD not in answer.text
    return own


def topics(client: TestClient) -> list[str]:
    return [row["topic"] for row in client.get("/api/v1/topics").json()["rows"]]


def test_each_sees_what_is_theirs_and_nothing_is_shared(outside: TestClient, gate: LoginGate) -> None:
    """A reader that is shared would show one person what another may see."""
    root, eve = enter(outside, "root"), enter(outside, "eve")
    assert (topics(root), topics(eve)) == (["secret", "shared"], ["shared"])
    shown = [
        {each["topic"] for each in client.get("/api/v1/lanes?topic=shared,secret").json()["partitions"]}
        for client in (root, eve, root)
    ]
    assert shown == [{"shared", "secret"}, {"shared"}, {"shared", "secret"}]
    for page in ("overview", "open", "groups", "in-doubt", "lanes"):
        assert "secret" not in eve.get(f"/api/v1/{page}").text.replace("lanes?topic", ""), page
    assert "of-secret" in root.get("/api/v1/open").text
    assert "of-secret" not in eve.get("/api/v1/open").text
    assert eve.get("/api/v1/records?topic=secret").status_code == 502
    assert [each.get("/api/v1/hello").json()["user"] for each in (root, eve)] == ["root", "eve"]
    states = [each.console.state for each in gate.logins.values()]
    for name in ("watch", "everything", "group_judge", "plans", "settings", "gate"):
        assert getattr(states[0], name) is not getattr(states[1], name), name


def test_a_living_transaction_of_an_id_that_one_may_not_see_is_not_called_hanging(
    outside: TestClient, guarded: TestBroker
) -> None:
    """Its page said to abort it, and the abort would have torn it apart."""
    eve = enter(outside, "eve")
    (row,) = eve.get("/api/v1/open").json()["rows"]
    assert (row["verdict"], row["open_on"]) == ("unknown owner", ["shared-0"])
    assert "does not mean that there is none: you may not see all transactional ids" in row["why"]
    assert "end nothing" in row["advice"]
    assert " transactions list --producer-id " in row["repair"]


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("overview", ("topics", "groups", "transactional ids")),
        ("open", ("topics", "transactional ids")),
        ("in-doubt", ("topics", "transactional ids")),
        ("groups", ("groups",)),
        ("topics", ("topics",)),
        ("lanes", ("topics",)),
        ("history", ("transactional ids",)),
        ("decisions", ("transactional ids",)),
    ],
)
def test_who_may_see_nothing_gets_no_all_clear(outside: TestClient, page: str, kinds: tuple[str, ...]) -> None:
    """Brokers leave out of their lists what one may not see: "nothing is open" was said beside transactions of others."""
    answer = enter(outside, "J\u00f6rg").get(f"/api/v1/{page}").json()
    told = {each["what"]: f"{each['error']} {each['why']}" for each in answer["not_read"]}
    for kind in kinds:
        assert f"HIDDEN you may not see all {kind}" in told[f"some {kind}"]
    if page in ("overview", "lanes"):
        assert answer["verdict"] == "Nothing is looked at"


def test_the_missing_operation_is_named(outside: TestClient) -> None:
    eve = enter(outside, "eve")
    answer = eve.get("/api/v1/overview").json()
    assert "DESCRIBE on every Topic" in {each["what"]: each["why"] for each in answer["not_read"]}["some topics"]
    assert answer["verdict"].startswith(
        ("Nobody that you may see is stopped: 1 partition", "Stopped: 1 of 1 partition that")
    )


def test_decisions_that_may_not_be_seen_are_no_missing_topic(outside: TestClient) -> None:
    """It said that there was no such topic."""
    found = enter(outside, "eve").get("/api/v1/decisions?topic=secret").json()
    assert "topic secret" in {each["what"] for each in found["not_read"]}
    assert [each["why"] for each in found["causes"]] == [
        "it takes DESCRIBE and READ on the topic; who reads and writes there may lack rights, too"
    ]
    found = enter(outside, "root").get("/api/v1/decisions").json()
    assert (found["has_topic"], found["not_read"]) == (False, [])


def test_a_name_with_other_letters_and_a_plan_of_ones_own(
    outside: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    root, other = enter(outside, "root"), enter(outside, "J\u00f6rg")
    wanted = json.dumps({"action": "force-terminate", "transactional_id": "planned"})
    made = root.post("/api/v1/plans", headers=POST, content=wanted).json()
    word = json.dumps({"word": "planned"})
    assert "over" in other.post(f"/api/v1/plans/{made['id']}", headers=POST, content=word).json()["message"]
    assert other.post("/api/v1/plans", headers=POST, content=wanted).status_code == 502, "that is beyond its rights"
    with caplog.at_level(logging.WARNING, "oncelog.console"):
        assert root.post(f"/api/v1/plans/{made['id']}", headers=POST, content=word).status_code == 200
    assert "'root' from testclient: done: " in caplog.text


def test_nobody_else_gets_in_and_what_was_given_stands_nowhere(
    outside: TestClient, gate: LoginGate, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("hello", "lanes", "events", "topics", "plans"):
        answer = outside.get(f"/api/v1/{path}")
        assert (answer.status_code, answer.json()["error"]) == (401, "LoginNeeded")
    assert outside.get("/").status_code == outside.get("/static/plans.js").status_code == 200
    assert outside.get("/nothing").status_code == 404
    assert outside.post("/api/v1/session", headers=POST, content='{"token": "x"}').status_code == 404
    with caplog.at_level(logging.DEBUG):
        enter(outside, "eve", 401, password=f"{PASSWORD}!")
        enter(outside, "nobody", 401)
        for wrong in ({"password": ""}, {"password": "a\0"}, {"password": "x" * 1025}, {"password": 5}, {"more": "x"}):
            enter(outside, "eve", 400, **wrong)
        assert gate.logins == {}
        eve = enter(outside, "eve")
    assert "'eve' from testclient: logged in" in caplog.text
    assert "'eve' from testclient: not let in" in caplog.text
    assert PASSWORD not in caplog.text
    cookie = eve.cookies[gate.cookie]
    assert PASSWORD not in cookie
    pages = (
        "hello",
        "open",
        "groups",
        "configs",
        "brokers",
        "records?topic=secret",
        "why?group=x",
        "in-doubt",
        "topics",
    )
    assert not [page for page in pages if PASSWORD in eve.get(f"/api/v1/{page}").text]
    (own,) = gate.logins.values()
    assert PASSWORD not in repr(own)
    assert PASSWORD not in repr(own.console.state.settings)
    assert outside.post("/api/v1/login", content="{}").status_code == 415, "a form of another page cannot log in"


def test_a_session_ends_with_its_client(outside: TestClient, gate: LoginGate, clock: Clock) -> None:
    eve = enter(outside, "eve")
    assert topics(eve) == ["shared"]
    (own,) = gate.logins.values()
    watch = own.console.state.watch
    assert eve.post("/api/v1/logout", headers=POST, content="{}").status_code == 200
    assert eve.get("/api/v1/hello").status_code == 401
    assert (watch.is_stopping, gate.logins) == (True, {})

    async def closed() -> None:
        for _ in range(1000):
            if watch.admin is None:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(watch.admin)

    assert outside.portal is not None
    outside.portal.call(closed)


@pytest.mark.parametrize(
    ("passed_s", "is_watching", "is_there"),
    [
        (IDLE_S - 1, False, True),
        (IDLE_S, False, False),
        (IDLE_S, True, True),
        (SESSION_S, True, False),
    ],
)
def test_one_that_nobody_uses_ends(
    outside: TestClient, gate: LoginGate, clock: Clock, passed_s: float, is_watching: bool, is_there: bool
) -> None:
    eve = enter(outside, "eve")
    (own,) = gate.logins.values()
    own.console.state.gate._everybody.streams = int(is_watching)
    clock.now_s = passed_s
    assert eve.get("/api/v1/hello").status_code == (200 if is_there else 401)
    assert (len(gate.logins), own.over.is_set()) == (int(is_there), not is_there)


def test_sessions_streams_and_attempts_are_bounded(
    outside: TestClient, gate: LoginGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOGINS_MAX", 1)
    browser = enter(outside, "eve")
    enter(outside, "root", 429)
    enter(outside, "root", browser=browser)
    assert browser.get("/api/v1/hello").json()["user"] == "root"
    (own,) = gate.logins.values()
    own.console.state.gate._everybody.streams = login.STREAMS_MAX
    assert not own.console.state.gate.may_stream(own.console.state.gate._everybody)
    monkeypatch.setattr(login, "WAITING_MAX", 0)
    enter(outside, "eve", 429)


def test_of_too_many_sessions_of_one_person_the_one_unused_for_longest_ends(
    outside: TestClient, gate: LoginGate, clock: Clock
) -> None:
    first = enter(outside, "eve")
    watching = next(iter(gate.logins.values()))
    watching.console.state.gate._everybody.streams = 1  # in use, although it asked nothing
    others = []
    for now_s in range(1, login.LOGINS_OF_ONE_MAX + 1):
        clock.now_s = now_s
        others.append(enter(outside, "eve"))
    assert [each.get("/api/v1/hello").status_code for each in (first, *others)] == [200, 401, 200, 200, 200]
    assert topics(enter(outside, "root")) == ["secret", "shared"]


def test_who_tries_passwords_of_one_name_keeps_nobody_else_waiting(
    guarded: TestBroker, gate: LoginGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause behind a wrong password ends when eve is in: she did not wait for it."""
    is_tried, is_in = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        is_tried.set()
        await is_in.wait()

    async def work() -> tuple[list[int], int]:
        settings = Settings(bootstrap_servers=guarded.bootstrap_servers, properties=MECHANISM)
        application = login_application(settings, gate)
        transport = httpx.ASGITransport(application)
        async with (
            application.router.lifespan_context(application),
            httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client,
        ):

            async def attempt(user: str, password: str) -> int:
                content = json.dumps({"user": user, "password": password})
                return (await client.post("/api/v1/login", headers=POST, content=content)).status_code

            wrong = [asyncio.ensure_future(attempt("root", "wrong")) for _ in range(login.WAITING_OF_ONE_MAX + 2)]
            await is_tried.wait()
            let_in = await attempt("eve", PASSWORD)
            is_in.set()
            return sorted(await asyncio.gather(*wrong)), let_in

    monkeypatch.setattr(login, "_pause", pause)
    statuses, let_in = asyncio.run(asyncio.wait_for(work(), 60))
    assert let_in == 200
    assert statuses == [401] * login.WAITING_OF_ONE_MAX + [429] * 2


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, "--login needs security.protocol=SASL_SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.mechanism=SCRAM-SHA-256 or"),
        ({**MECHANISM, "security.protocol": "SSL"}, "--login needs security.protocol=SASL_SSL"),
        ({**MECHANISM, "sasl.username": "console"}, "--login and sasl.username exclude each other"),
        ({**MECHANISM, "sasl.jaas.config": "secret"}, "--login and sasl.jaas.config exclude each other"),
    ],
)
def test_what_a_console_must_bring_itself(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as refused:
        check_login(Settings(properties=properties))
    assert "secret" not in str(refused.value)
    check_login(Settings(properties=MECHANISM))

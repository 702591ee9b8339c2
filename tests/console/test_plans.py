"""Plans: nothing without the switch, nothing without the name typed, nothing that has changed since; each deed is a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

with warnings.catch_warnings():  # it would rather have a client that nothing else here needs
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from oncelog.cli.command import Settings
from oncelog.console.routes import application
from oncelog.console.security import Gate
from tests.cli.world import Cli

POST = {"x-oncelog-console": "1", "content-type": "application/json"}
ORIGIN = "http://testserver"


def client_of(night: Cli, *, allow_writes: bool, database_url: str | None = None) -> TestClient:
    settings, gate = Settings(bootstrap_servers=night.bootstrap_servers), Gate(frozenset({"testserver"}), is_open=True)
    return TestClient(
        application(settings, gate, allow_writes=allow_writes, database_url=database_url), base_url=ORIGIN
    )


@pytest.fixture(scope="module")
def client(night: Cli) -> Iterator[TestClient]:
    night.create("planned")
    with client_of(night, allow_writes=True) as client:
        yield client


def post(client: TestClient, path: str, status: int, **body: Any) -> Any:
    answer = client.post(f"/api/v1/{path}", headers=POST, content=json.dumps(body))
    assert answer.status_code == status, answer.text
    return answer.json()


def test_without_the_switch_nothing_acts(night: Cli) -> None:
    with client_of(night, allow_writes=False) as reader:
        assert reader.get("/api/v1/plans").json() == {"may_write": False}
        assert reader.get("/api/v1/hello").json()["is_read_only"] is True
        assert "--allow-writes" in post(reader, "plans", 403, action="abort")["message"]
        post(reader, "plans/guess", 403, word="x")


def test_another_sites_page_cannot_act(client: TestClient) -> None:
    body = json.dumps({"action": "force-terminate", "transactional_id": "x"})
    assert (
        client.post("/api/v1/plans", headers={**POST, "origin": "http://evil.example"}, content=body).status_code == 403
    )
    assert client.post("/api/v1/plans", content=body).status_code == 415
    form = {"content-type": "application/x-www-form-urlencoded", "x-oncelog-console": "1"}
    assert client.post("/api/v1/plans", headers=form, content=body).status_code == 415


def test_an_open_transaction_is_ended_after_its_name(
    client: TestClient, night: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    night.leave_open("planned", "slow\x1b[31m")
    made = post(client, "plans", 200, action="force-terminate", transactional_id="slow\x1b[31m")
    assert made["word"] == "slow\x1b[31m"
    post(client, f"plans/{made['id']}", 400, word="slow")
    with caplog.at_level(logging.WARNING, "oncelog.console"):
        assert "abort transaction" in post(client, f"plans/{made['id']}", 200, word=made["word"])["done"]
    assert "done: " in caplog.text
    assert "\x1b" not in caplog.text
    assert night.json("transactions", "describe", "slow\x1b[31m")["state"] == "Empty"
    post(client, f"plans/{made['id']}", 400, word=made["word"])


def test_what_changed_since_is_not_done(client: TestClient, night: Cli) -> None:
    night.leave_open("planned", "moving")
    made = post(client, "plans", 200, action="force-terminate", transactional_id="moving")
    night("transactions", "force-terminate", "--transactional-id", "moving", "--yes")
    night.leave_open("planned", "moving")
    again = post(client, f"plans/{made['id']}", 409, word="moving")
    assert again["error"] == "stale"
    assert night.json("transactions", "describe", "moving")["state"] == "Ongoing"
    post(client, f"plans/{again['plan']['id']}", 200, word="moving")


def test_what_is_over_meanwhile_is_told_as_changed(
    client: TestClient, night: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    night.leave_open("planned", "over")
    made = post(client, "plans", 200, action="force-terminate", transactional_id="over")
    night("transactions", "force-terminate", "--transactional-id", "over", "--yes")
    with caplog.at_level(logging.WARNING, "oncelog.console"):
        again = post(client, f"plans/{made['id']}", 409, word="over")
    assert (again["error"], again["plan"]) == ("stale", None)
    assert "nothing was done" in again["message"]
    assert "it is Empty" in again["message"]
    assert "wanted" in caplog.text, "who wanted what is a line in the log, too"


def test_a_name_that_cannot_be_typed_is_typed_as_it_is_shown(client: TestClient, night: Cli) -> None:
    night.leave_open("planned", "new\nline")
    made = post(client, "plans", 200, action="force-terminate", transactional_id="new\nline")
    post(client, f"plans/{made['id']}", 200, word=r"new\nline")


def test_only_a_prepared_one_is_completed(client: TestClient, night: Cli) -> None:
    """An ordinary transaction in the midst of its work was committed: half of it became readable."""
    state = night.leave_open("planned", "at-work")
    wanted = {"action": "complete", "transactional_id": "at-work", "state": state, "outcome": "commit"}
    assert "not prepared" in post(client, "plans", 502, **wanted)["message"]
    night("transactions", "force-terminate", "--transactional-id", "at-work", "--yes")


def test_a_prepared_one_is_ended_only_as_decided(client: TestClient, night: Cli) -> None:
    state = night.leave_open("planned", "prepared", two_phase=True)
    assert "refused" in post(client, "plans", 502, action="force-terminate", transactional_id="prepared")["message"]
    wanted = {"action": "complete", "transactional_id": "prepared", "state": state}
    post(client, "plans", 400, **wanted)
    post(client, "plans", 502, **{**wanted, "state": "1:99"}, outcome="commit")
    made = post(client, "plans", 200, **wanted, outcome="commit")
    post(client, f"plans/{made['id']}", 200, word="prepared")
    assert night.json("transactions", "describe", "prepared")["state"] == "CompleteCommit"


def test_a_hanging_one_is_aborted_and_an_owned_one_is_not(client: TestClient, night: Cli) -> None:
    night.create("haunted")
    ghost = night.leave_hanging("haunted", "ghost")
    made = post(client, "plans", 200, action="abort", topic="haunted", partition=0, producer_id=ghost)
    assert made["word"] == "haunted-0"
    post(client, f"plans/{made['id']}", 200, word="haunted-0")
    assert night.json("topics", "describe", "haunted")[0]["blocked"] == 0
    night.leave_open("haunted", "owned")
    owner = night.json("transactions", "describe", "owned")["producer_id"]
    refused = post(client, "plans", 502, action="abort", topic="haunted", partition=0, producer_id=owner)
    assert "owns" in refused["message"]
    night("transactions", "force-terminate", "--transactional-id", "owned", "--yes")


@pytest.mark.parametrize(
    "body", [{}, {"action": "drop"}, {"action": "abort"}, {"action": "abort", "more": 1}, {"action": 5}]
)
def test_plans_that_make_no_sense_are_refused(client: TestClient, body: dict[str, Any]) -> None:
    post(client, "plans", 400, **body)


@contextlib.contextmanager
def by_proxy(night: Cli, operators: frozenset[str] | None = frozenset({"ann"})) -> Iterator[TestClient]:
    proxies = frozenset({"10.0.0.5"})
    gate = Gate(frozenset({"testserver"}), user_header="x-user", trusted_proxies=proxies, operators=operators)
    made = application(Settings(bootstrap_servers=night.bootstrap_servers), gate, allow_writes=True)
    with TestClient(made, base_url=ORIGIN, client=("10.0.0.5", 40_000)) as client:
        yield client


def posted(client: TestClient, user: str, path: str, status: int, **body: Any) -> Any:
    answer = client.post(f"/api/v1/{path}", headers={**POST, "x-user": user}, content=json.dumps(body))
    assert answer.status_code == status, answer.text
    return answer.json()


def told(client: TestClient, user: str) -> tuple[bool, bool, str]:
    """Whether it may write, whether its page is read-only, and who it is."""
    headers = {"x-user": user}
    hello = client.get("/api/v1/hello", headers=headers).json()
    return client.get("/api/v1/plans", headers=headers).json()["may_write"], hello["is_read_only"], hello["user"]


def test_a_viewer_looks_and_an_operator_acts(night: Cli, caplog: pytest.LogCaptureFixture) -> None:
    night.create("roles")
    night.leave_open("roles", "of-roles")
    wanted = {"action": "force-terminate", "transactional_id": "of-roles"}
    with by_proxy(night) as client:
        assert (told(client, "ann"), told(client, "bob")) == ((True, False, "ann"), (False, True, "bob"))
        message = "'bob' is a viewer here: copy the command, or ask an operator"
        assert posted(client, "bob", "plans", 403, **wanted) == {"error": "refused", "message": message}
        made = posted(client, "ann", "plans", 200, **wanted)
        assert posted(client, "bob", f"plans/{made['id']}", 403, word="of-roles")["message"] == message
        assert night.json("transactions", "describe", "of-roles")["state"] == "Ongoing"
        stranger = TestClient(client.app, base_url=ORIGIN, client=("127.0.0.1", 40_000))
        refused = posted(stranger, "ann", f"plans/{made['id']}", 403, word="of-roles")
        assert refused["message"] == "come by the proxy that says who you are"
        both = [("x-user", "ann"), ("x-user", "bob"), *POST.items()]
        assert client.post(f"/api/v1/plans/{made['id']}", headers=both, content="{}").status_code == 403
        with caplog.at_level(logging.WARNING, "oncelog.console"):
            posted(client, "ann", f"plans/{made['id']}", 200, word="of-roles")
    assert "'ann' from 10.0.0.5: done: " in caplog.text
    assert night.json("transactions", "describe", "of-roles")["state"] == "Empty"


def test_without_roles_whoever_comes_by_the_proxy_may_act(night: Cli) -> None:
    with by_proxy(night, operators=None) as client:
        assert told(client, "bob") == (True, False, "bob")
        assert (
            "no open transaction"
            in posted(client, "bob", "plans", 502, action="force-terminate", transactional_id="order-api")["message"]
        )


def test_a_deed_that_ctrl_c_interrupts_has_its_line(
    client: TestClient, night: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could tell that the broker had been asked."""

    async def interrupted(*_: Any) -> None:
        raise asyncio.CancelledError

    night.leave_open("planned", "interrupted")
    made = post(client, "plans", 200, action="force-terminate", transactional_id="interrupted")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "oncelog.console"):
        patch.setattr("oncelog.console.plans._do", interrupted)
        told = post(client, f"plans/{made['id']}", 503, word="interrupted")
    assert told["message"] == "the console ended meanwhile: what became of it is not known here"
    assert "of interrupted, open for" in caplog.text
    assert "was interrupted: the console ended meanwhile" in caplog.text
    night("transactions", "force-terminate", "--transactional-id", "interrupted", "-y")

"""The console's answers against a broker where things stand still: no browser, no socket of the console's own."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

with warnings.catch_warnings():  # it would rather have a client that nothing else here needs
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from oncelog import Admin
from oncelog.cli.command import Settings
from oncelog.console import app, group_pages, long_look, pages, watch
from oncelog.console.answers import lanes_answer
from oncelog.console.long_look import LongLook
from oncelog.console.routes import _hint, application
from oncelog.console.security import HEADERS, Gate
from oncelog.console.watch import view_of
from oncelog.errors import ConfigurationError, GroupIdNotFound, Network, RequestTimedOut
from oncelog.types import TopicPartition
from tests.cli.world import Cli

ORIGIN = "http://testserver"
POST = {"x-oncelog-console": "1", "content-type": "application/json"}


@pytest.fixture(scope="module")
def client(night: Cli) -> Iterator[TestClient]:
    gate = Gate(frozenset({"testserver"}))
    made = application(Settings(bootstrap_servers=night.bootstrap_servers), gate)
    with TestClient(made, base_url=ORIGIN) as client:
        assert client.get("/api/v1/hello").status_code == 401
        guessed = client.post("/api/v1/session", headers=POST, content='{"token": "guess"}')
        assert (guessed.status_code, "or is none" in guessed.json()["message"]) == (401, True)
        answer = client.post("/api/v1/session", headers=POST, content=json.dumps({"token": gate.new_link_token()}))
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        yield client


def get(client: TestClient, path: str, statuses: Collection[int] = (200,)) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code in statuses, answer.text
    return answer.json()


def until(client: TestClient, path: str, is_there: Any, statuses: Collection[int] = (200,)) -> Any:
    """What hangs is called so only after a few seconds, so one look is not enough."""
    for _ in range(60):
        found = get(client, path, statuses)
        if is_there(found):
            return found
        assert client.portal is not None
        client.portal.call(asyncio.sleep, 0.25)
    raise AssertionError(found)


def test_pages_hold_no_data_and_forbid_what_they_do_not_need(client: TestClient) -> None:
    stranger = TestClient(client.app, base_url=ORIGIN)
    page = stranger.get("/")
    assert page.status_code == 200
    assert {name: page.headers[name] for name in HEADERS} == HEADERS
    assert "<script>" not in page.text
    assert stranger.get("/static/lanes.js").headers["content-type"].startswith("text/javascript")
    for path in ("lanes", "events", "overview", "open", "in-doubt", "groups"):
        assert stranger.get(f"/api/v1/{path}").status_code == 401
    assert stranger.get("/api/v1/hello", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(("proto", "is_secure"), [("https", True), ("https, http", True), ("http", False), ("", False)])
def test_a_cookie_is_for_https_where_a_proxy_speaks_it(proto: str, is_secure: bool) -> None:
    gate = Gate(None)
    stranger = TestClient(application(Settings(bootstrap_servers="127.0.0.1:1"), gate), base_url=ORIGIN)
    headers = {**POST, "x-forwarded-proto": proto}
    body = json.dumps({"token": gate.new_link_token()})
    cookie = stranger.post("/api/v1/session", headers=headers, content=body).headers["set-cookie"]
    assert ("secure" in cookie.lower()) is is_secure


def test_posts_are_bounded(client: TestClient) -> None:
    assert client.post("/api/v1/session", headers=POST, content="x" * 5000).status_code == 413
    assert client.post("/api/v1/session", headers=POST, content="no json").status_code == 400


def test_lanes_are_columns_with_words_and_letters(client: TestClient) -> None:
    found = get(client, "lanes?topic=orders,payments&window_ms=600000")
    orders, payments = found["partitions"]
    assert (orders["topic"], orders["blocked"], payments["blocked"]) == ("orders", 3, 3)
    assert orders["spans"]["outcome"] == [1, 2, 1, 0]
    assert orders["spans"]["records"] == [1, 1, 1, 3]
    assert {len(each) for each in orders["spans"].values()} == {4}
    names = dict(found["producers"])
    assert {names[each["producer_id"]] for each in found["open"]} == {"<img src=x onerror=alert(1)>", "ledger-7"}
    assert [each["letter"] for each in found["open"]] == ["A", "B"]


def test_a_first_answer_has_all_that_is_asked_for(client: TestClient) -> None:
    """Where another page was looking at one of two topics, that one alone came back, and "Nobody is stopped" with it."""
    watch = client.app.state.watch  # type: ignore[attr-defined]
    with watch.watched(view_of("audit", "", "")):
        until(client, "lanes?topic=audit", lambda each: each["partitions"])
        found = get(client, "lanes?topic=audit,orders,payments&window_ms=900000")
    assert [each["topic"] for each in found["partitions"]] == ["audit", "orders", "payments"]
    assert {each["high_watermark"] is None for each in found["partitions"]} == {False}


def test_what_is_not_read_yet_is_no_all_clear(client: TestClient) -> None:
    watch = client.app.state.watch  # type: ignore[attr-defined]
    view = view_of("orders,payments", "", "")

    def half_read() -> Any:  # where the reader runs, between two of its steps
        with watch.watched(view):
            seen, watch.seen = watch.seen, {TopicPartition("payments", 0): view.window_ms}
            try:
                return lanes_answer(watch, view)
            finally:
                watch.seen = seen

    with watch.watched(view):
        get(client, "lanes?topic=orders,payments")
        assert client.portal is not None
        found = client.portal.call(half_read)
    assert [each["topic"] for each in found["partitions"]] == ["payments"]
    assert [(each["what"], each["error"]) for each in found["not_read"]] == [("orders-0", "NOT_READ_YET")]


@pytest.mark.parametrize("query", ["window_ms=1", "window_ms=x", "partition=x"])
def test_a_view_that_makes_no_sense_is_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"/api/v1/lanes?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"] == "refused"


@pytest.mark.parametrize(
    ("query", "what"),
    [("topic=nope", "topic nope"), ("topic=orders&partition=99", "partition 99"), ("topic=orders,nope", "topic nope")],
)
def test_what_there_is_not_is_no_all_clear(client: TestClient, query: str, what: str) -> None:
    """A mistyped topic was "Nobody is stopped: 0 partitions looked at", with a green card beside it."""
    found = get(client, f"lanes?{query}")
    assert [each["what"] for each in found["not_read"] if each["error"] == "UNKNOWN_TOPIC_OR_PARTITION"] == [what]
    if not found["partitions"]:
        assert found["verdict"] == "Nothing is looked at"


def test_a_card_is_about_what_its_page_shows(client: TestClient, night: Cli) -> None:
    """The reader is shared: who looks at one topic got the cards of what another browser looks at."""
    watch = client.app.state.watch  # type: ignore[attr-defined]
    with watch.watched(view_of("payments", "", "")):
        until(client, "lanes?topic=payments", lambda each: each["causes"])
        night.create("quiet")
        found = until(client, "lanes?topic=quiet", lambda each: each["partitions"])
        assert watch.judgement.causes
        assert (found["causes"], found["verdict"]) == ([], "Nobody is stopped: 1 partition looked at")


@pytest.mark.parametrize("body", [b"\xff", b'{"token": "\xff"}', b'{"token": "\xed\xa0\x80"}', b"[" * 4000])
def test_a_link_in_bytes_that_are_no_text_is_refused(client: TestClient, body: bytes) -> None:
    """Whoever reaches the address could write tracebacks into its log."""
    assert client.post("/api/v1/session", headers=POST, content=body).status_code == 400


def test_open_transactions_are_what_the_command_line_says(client: TestClient, night: Cli) -> None:
    def is_there(found: Any) -> bool:
        return [row["verdict"] for row in found["rows"]].count("hanging") == 1

    rows = {row["transactional_id"]: row for row in until(client, "open", is_there)["rows"]}
    explained = {row["transactional_id"]: row for row in night.json("transactions", "explain")}
    for name, verdict in (("ledger-7", "two-phase"), ("<img src=x onerror=alert(1)>", "in progress")):
        assert rows[name]["verdict"] == explained[name]["verdict"] == verdict
        assert (rows[name]["advice"], rows[name]["repair"]) == (explained[name]["advice"], explained[name]["repair"])
    described = night.json("transactions", "describe", "ledger-7")
    assert {key: rows["ledger-7"][key] for key in ("state", "two_phase", "timeout_ms", "partitions")} == {
        key: described[key] for key in ("state", "two_phase", "timeout_ms", "partitions")
    }


def test_overview_has_one_verdict_and_the_causes_of_why(client: TestClient, night: Cli) -> None:
    found = until(client, "overview", lambda found: found["hanging"] == 1 and found["in_doubt"] == 1)
    assert found["verdict"].startswith("Stopped: ") or found["waiting"] == 3
    (hanging,) = [each for each in found["causes"] if each["kind"] == "hanging transaction"]
    (cause,) = night.json("why", "audit")["causes"]
    same = ("what", "why", "advice", "command", "partitions", "start_offset")
    assert {key: hanging[key] for key in same} == {key: cause[key] for key in same}


def forget(client: TestClient) -> None:
    """What was seen of every partition."""
    state = client.app.state  # type: ignore[attr-defined]
    state.everything = LongLook(state.watch.tasks, "every partition", "partitions")


def test_one_look_at_many_partitions_is_for_all_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of each browser looked at all 40,000 every few seconds."""
    looks: list[int] = []
    look = pages._look_at_everything

    async def counted(*given: Any) -> pages.Everything:
        looks.append(1)
        return await look(*given)

    before = get(client, "overview")
    monkeypatch.setattr(pages, "_look_at_everything", counted)
    get(client, "overview")
    get(client, "open")
    assert len(looks) == 2, "few partitions are looked at anew"
    for module in (pages, watch):
        monkeypatch.setattr(module, "MANY", 0)
    monkeypatch.setattr(pages, "ASKED_AT_ONCE", 1)  # some at a time, and nothing is lost between them
    looks.clear()
    forget(client)
    found = [get(client, "overview"), get(client, "overview")]
    assert get(client, "open")["count"] == before["open"]
    assert len(looks) == 1
    assert [each["partition_count"] for each in found] == [before["partition_count"]] * 2
    assert [each["stopped"] for each in found] == [before["stopped"]] * 2


def test_what_takes_long_is_said_and_no_error(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 40,000 partitions on a slow machine the pages failed, or never ended."""
    look, may_end = pages._look_at_everything, threading.Event()

    async def held(*given: Any) -> pages.Everything:
        await asyncio.to_thread(may_end.wait)
        return await look(*given)

    monkeypatch.setattr(pages, "_look_at_everything", held)
    monkeypatch.setattr(long_look, "PATIENCE_S", 0.0)
    forget(client)
    for page in ("overview", "open", "in-doubt"):
        answer = client.get(f"/api/v1/{page}")
        assert (answer.status_code, answer.json()["error"]) == (202, "BeingRead")
        assert "being read" in answer.json()["message"]
    may_end.set()
    found = until(client, "overview", lambda answer: answer.get("verdict"), statuses=(200, 202))
    assert found["age_ms"] < 60_000


def test_in_doubt_without_a_database_suggests_no_outcome(client: TestClient) -> None:
    found = get(client, "in-doubt")
    (row,) = found["rows"]
    assert (row["transactional_id"], found["has_database"], found["database"]) == ("ledger-7", False, [])
    assert "--commit" not in row["repair"]
    assert "--abort" not in row["repair"]


def test_a_database_that_is_down_hides_nothing_that_is_in_doubt(night: Cli) -> None:
    """The page failed whole; and of what no answer came for, "not-here" would be a lie."""
    made = app(
        bootstrap_servers=night.bootstrap_servers,
        database_url="postgresql://app:wrong@127.0.0.1:1/shop",
        open_to_all=True,
    )
    with TestClient(made, base_url=ORIGIN) as client:
        found = get(client, "in-doubt")
    assert [row["transactional_id"] for row in found["rows"]] == ["ledger-7"]
    assert (found["has_database"], found["database"]) == (True, [])
    assert found["database_error"]["message"].startswith("the database: ")
    assert "is it up" in found["database_error"]["hint"]


def test_an_application_refuses_a_database_that_nothing_understands() -> None:
    with pytest.raises(ConfigurationError, match="nothing here knows 'nope'"):
        app(bootstrap_servers="127.0.0.1:1", database_url="nope://x", open_to_all=True)


def test_groups_are_what_the_command_line_says(client: TestClient, night: Cli) -> None:
    night("consume", "orders", "--group", "billing", "--from", "earliest", "--exit")
    found = get(client, "groups")
    (group,) = [each for each in found["groups"] if each["group"] == "billing"]
    assert group["rows"] == night.json("groups", "describe", "billing")
    assert group["rows"][0]["blocked"] == 3


def test_why_a_group_stands_still_is_what_the_command_line_says(
    client: TestClient, night: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page Groups showed a position that was out of range, or pending, as any other."""
    monkeypatch.setattr(group_pages, "CALM_MS", 0)  # else what is open grows old enough between the two
    night("groups", "reset-offsets", "lost-group", "--topic", "orders:0", "--to-offset", 2, "-y")

    async def beyond() -> None:
        async with Admin(bootstrap_servers=night.bootstrap_servers) as admin:
            await admin.alter_consumer_group_offsets("lost-group", {TopicPartition("audit", 0): 99})

    asyncio.run(beyond())
    found = get(client, "why?group=lost-group")
    same = night.json("why", "lost-group", "--as", "group", "--older-than", "0s")
    assert "position out of range" in [each["kind"] for each in found["causes"]]
    assert [(each["what"], each["command"]) for each in found["causes"]] == [
        (each["what"], each["command"]) for each in same["causes"]
    ]
    assert [each["group"] for each in get(client, "groups?group=lost-group")["groups"]] == ["lost-group"]
    assert client.get("/api/v1/why").status_code == 400
    assert client.get("/api/v1/why?group=nobody").json()["error"] == "Failed"


def test_an_error_of_before_is_not_told_as_if_it_were_of_now(client: TestClient) -> None:
    """Nobody had looked since, and the broker was well again: `now_ms` was fresh, and the error was not."""
    client.app.state.watch.error = ("REQUEST_TIMED_OUT", "Metadata got no answer within 30000 ms")
    found = get(client, "lanes?topic=payments")
    assert (found["error"], [each["topic"] for each in found["partitions"]]) == (None, ["payments"])


def test_who_sits_at_a_browser_is_told_of_no_option() -> None:
    for error in (RequestTimedOut("list topics: not done within 5000 ms"), Network("gone"), TimeoutError()):
        assert "-b" not in _hint(error, Settings())
    assert _hint(GroupIdNotFound("x"), Settings()) == "`oncelog groups list` shows the known groups"


def test_a_broker_that_is_away_is_said_and_the_page_stays() -> None:
    with TestClient(app(bootstrap_servers="127.0.0.1:1", open_to_all=True), base_url=ORIGIN) as client:
        assert client.get("/").status_code == 200
        answer = client.get("/api/v1/overview")
        assert (answer.status_code, answer.json()["error"]) == (502, "Failed")

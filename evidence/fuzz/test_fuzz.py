"""A few seconds of every target, the corpus, and proof that the fuzzer finds what is planted."""

from __future__ import annotations

import gc
import pathlib
from types import SimpleNamespace

import pytest

from evidence.fuzz import broker_target, client_target, disk_target, login_target, parser_target
from evidence.fuzz.broker_target import Life
from evidence.fuzz.findings import Findings, watch_no_more
from evidence.world import identity_provider
from evidence.world.loop import run_simulated
from oncelog.broker.handlers import _loaded, handler_for
from oncelog.broker.requests.request import Request
from oncelog.core.sasl import plain, scram_exchange
from oncelog.core.sasl.connection import SaslConnection
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.heartbeat import HeartbeatResponse

CORPUS = sorted((pathlib.Path(__file__).parent / "corpus").glob("*.txt"))


@pytest.fixture(autouse=True, scope="module")
def no_garbage_of_others():
    """A collection of all that thousands of other tests have left takes a second, and counted as a step's own time."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_watch():
    yield
    watch_no_more()


def told(findings: Findings) -> str:
    return "\n\n".join(findings.texts.values())


@pytest.mark.parametrize("number", range(3))
def test_frames(number):
    findings = Findings()
    broker_target.one_life(f"broker:{number}", findings, 700)
    assert not findings, told(findings)
    assert findings.inputs["frames"] == 700


@pytest.mark.parametrize(
    ("target", "count"), [(parser_target, 1500), (client_target, 6), (disk_target, 15), (login_target, 700)]
)
def test_the_other_targets(target, count):
    findings = Findings()
    target.one_life("test:1", findings, count)
    assert not findings, told(findings)
    assert findings.inputs.total() >= count


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_found_once(path):
    """Frames, a line each, in hexadecimal; `+N` lets N milliseconds pass. Comments say what it was."""
    findings = Findings()
    life = Life(f"corpus {path.stem}", findings, 0)
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    run_simulated(path.stem, lambda loop: life.replay(loop, lines))
    assert not findings, told(findings)


def test_one_seed_is_one_life():
    lives = []
    for _ in range(2):
        life = Life("broker:5", Findings(), 150)
        run_simulated("broker:5", life.live)
        lives.append((life.trace.hexdigest(), life.correlation_id))
    assert lives[0] == lives[1]


def planted_crash(broker, request: Request):
    raise KeyError("planted")


def planted_answer(broker, request: Request):
    return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


async def planted_task(broker, request: Request):
    raise ValueError("planted")


@pytest.mark.parametrize("defect", [planted_crash, planted_answer, planted_task])
def test_the_fuzzer_finds_what_is_planted(defect, monkeypatch):
    handler_for(ApiKey.HEARTBEAT)
    monkeypatch.setitem(_loaded, ApiKey.HEARTBEAT, defect)
    findings = Findings()
    broker_target.one_life("broker:1", findings, 300)
    assert findings
    assert "make fuzz SEED=broker:1" in told(findings)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "what"),
    [
        (SaslConnection, "may_ask", lambda self, now_ms: True, "was answered before a login"),
        (scram_exchange, "is_proof", lambda *_: True, "somebody was let in"),
        (plain, "hmac", SimpleNamespace(compare_digest=lambda *_: True), "somebody was let in"),
    ],
)
def test_who_is_let_in_without_a_password_is_found(monkeypatch, owner, name, wrong, what):
    monkeypatch.setattr(owner, name, wrong)
    findings = Findings()
    login_target.one_life("logins:2", findings, 1500)
    assert what in told(findings)


def test_a_good_token_would_come_in():
    """So the others are refused for what is wrong with them."""
    findings = Findings()
    life = login_target.Life("logins:3", findings, 600)
    life.tokens = [identity_provider.signed(identity_provider.claims(login_target.NOW_S))]
    run_simulated("logins:3", life.live)
    assert "somebody was let in" in told(findings)

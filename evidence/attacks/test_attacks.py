"""Each attack on a secured broker of ours: what its maker gets, what the log says, who is still served."""

from __future__ import annotations

import asyncio
import logging

import pytest

from evidence.attacks.attack import ATTACKS
from evidence.attacks.exhaustion import BOUNDS
from evidence.attacks.judging import Lines, judged
from evidence.attacks.kinds import KINDS, of_kind
from evidence.attacks.peer import Peer
from evidence.attacks.target import Files, ours

TIMEOUT_S = 240


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Certificates and key sets."""
    return Files(tmp_path_factory.mktemp("attacks"))


@pytest.mark.parametrize("kind", KINDS)
def test_attacks(kind, files, tmp_path):
    bounds = BOUNDS if kind == "exhaustion" else {}
    files.directory = tmp_path
    log = Lines()

    async def work():
        found = {}
        async with asyncio.timeout(TIMEOUT_S), ours(files, **bounds) as target:
            bystander = await Peer.connect(target.addresses["SASL"], "127.0.0.1")
            assert (await bystander.log_in("alice", "wonder-secret")).error_code == 0
            for attack in of_kind(kind):
                faults = await judged(attack, target, log, bystander)
                if faults:
                    found[attack.name] = faults
            bystander.close()
        return found

    logger = logging.getLogger("oncelog")
    before = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    try:
        found = asyncio.run(work())
    finally:
        logger.removeHandler(log)
        logger.setLevel(before)
    assert not found, "\n".join(f"{name}: {'; '.join(faults)}" for name, faults in found.items())


def test_there_are_a_hundred_of_all_kinds():
    assert len(ATTACKS) >= 100
    assert all(len(of_kind(kind)) >= 5 for kind in KINDS)
    assert {each.kind for each in ATTACKS.values()} == set(KINDS)

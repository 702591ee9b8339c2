"""What each client version is told when verification fails (KIP-890), cell by cell."""

from __future__ import annotations

import pytest

from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi, client_refusal
from oncelog.errors import ErrorCode

COLUMNS = [
    ClientVersion(GuardedApi.PRODUCE, 10),
    ClientVersion(GuardedApi.PRODUCE, 11),
    ClientVersion(GuardedApi.PRODUCE, 12),
    ClientVersion(GuardedApi.TXN_OFFSET_COMMIT, 3),
    ClientVersion(GuardedApi.TXN_OFFSET_COMMIT, 4),
    ClientVersion(GuardedApi.TXN_OFFSET_COMMIT, 5),
]
TABLE = {  # coordinator's or transport's error: what each column is told
    15: (19, 19, 19, 15, 15, 15),
    14: (19, 19, 19, 14, 14, 14),
    16: (19, 19, 19, 16, 16, 16),
    13: (19, 19, 19, 14, 14, 14),
    51: (19, 19, 51, 51, 51, 51),
    90: (47, 47, 47, 47, 47, 47),
    47: (47, 47, 47, 47, 47, 47),
    120: (48, 120, 120, 48, 120, 120),
    49: (49, 49, 49, 49, 49, 49),
    31: (48, 48, 48, 48, 48, 48),
    48: (48, 48, 48, 48, 48, 48),
    3: (3, 3, 3, 3, 3, 3),
    0: (0, 0, 0, 0, 0, 0),
    35: (0, 0, 35, 0, 0, 35),  # transaction.version 0, or the coordinator's broker lacks AddPartitionsToTxn v4
}


@pytest.mark.parametrize("coordinator_error", TABLE)
def test_every_client_version_is_told_what_it_understands(coordinator_error: int):
    told = []
    for client in COLUMNS:
        refusal = client_refusal(client, ErrorCode(coordinator_error))
        assert refusal is None or refusal.message
        told.append(0 if refusal is None else int(refusal.error_code))
    assert tuple(told) == TABLE[coordinator_error]


def test_the_reason_survives_where_the_code_hides_it():
    refusal = client_refusal(COLUMNS[0], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert refusal is not None
    assert "COORDINATOR_LOAD_IN_PROGRESS" in refusal.message


def test_which_versions_add():
    assert [client.supports_implicit_add for client in COLUMNS] == [False, False, True, False, False, True]

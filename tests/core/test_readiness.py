from __future__ import annotations

import pytest

from oncelog.core.readiness import offline_count_of, readiness_body


@pytest.mark.parametrize(("count", "body"), [(0, "ready\n"), (2, "ready; offline partitions: 2\n")])
def test_what_is_said_is_read_back(count: int, body: str) -> None:
    assert readiness_body(count) == body
    assert offline_count_of(body) == count


@pytest.mark.parametrize("body", ["", "not ready\n", "ready; offline partitions: many\n"])
def test_what_no_broker_says_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        offline_count_of(body)

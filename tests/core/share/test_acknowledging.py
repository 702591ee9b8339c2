"""Which acknowledgements are well formed."""

from __future__ import annotations

import pytest

from oncelog.core.share.acknowledging import acknowledgements_of
from oncelog.wire.messages.share_fetch import AcknowledgementBatch


def of(*batches, may_renew=False):
    asked = [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=list(c)) for a, b, c in batches]
    return acknowledgements_of(asked, may_renew=may_renew)


def test_one_type_for_all_or_one_for_each():
    assert of((0, 2, (1,)), (3, 4, (2, 3))) == ((0, 2, (1,)), (3, 4, (2, 3)))


@pytest.mark.parametrize(
    "batches",
    [
        [(2, 1, (1,))],
        [(5, 6, (1,)), (0, 1, (1,))],
        [(0, 1, ())],
        [(0, 2, (1, 1))],
        [(0, 0, (9,))],
        [(0, 0, (-1,))],
        [(0, 0, (4,))],
    ],
)
def test_what_is_malformed(batches):
    assert of(*batches) is None


def test_renewing_has_to_be_said_before():
    assert of((0, 0, (4,)), may_renew=True) == ((0, 0, (4,)),)

"""In the place of a double."""

from __future__ import annotations

import pytest
from faststream.exceptions import FeatureNotSupportedException

from oncelog.faststream import TestOncelogBroker as Double
from tests.faststream.world import new_broker


def test_whoever_asks_for_a_double_hears_of_the_real_one():
    with pytest.raises(FeatureNotSupportedException, match=r"oncelog\.testing\.TestBroker \(docs/faststream\.md"):
        Double(new_broker("127.0.0.1:1"))

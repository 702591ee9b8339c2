"""What the admin client refuses before it asks: resources and features that are none."""

from __future__ import annotations

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Admin, errors


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda admin: admin.describe_configs([5]), "a resource must be a ConfigResource, or a pair"),
        (
            lambda admin: admin.describe_configs([("topic", "t", "more")]),
            "a resource must be a ConfigResource, or a pair",
        ),
        (lambda admin: admin.alter_configs({"topic": {}}), "a resource must be a ConfigResource, or a pair"),
        (lambda admin: admin.update_features(["transaction.version"]), "levels must be a mapping"),
        (lambda admin: admin.update_features({"f": "3"}), r"levels\['f'\] must be"),
    ],
)
def test_what_is_wrong_is_told_with_its_name(call, says):
    async def work():
        broker = ScriptedBroker()
        async with Admin(host=broker.host(), bootstrap_servers=BOOTSTRAP) as admin:
            asked = len(broker.asked)
            with pytest.raises(errors.InvalidArgument, match=says):
                await call(admin)
            assert len(broker.asked) == asked

    run(work)

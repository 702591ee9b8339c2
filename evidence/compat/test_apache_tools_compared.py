"""Apache Kafka's own tools print the same for oncelog as for Apache Kafka, up to ids and times."""

from __future__ import annotations

import concurrent.futures
import difflib

import pytest

from evidence.compat.apache import find_launcher
from evidence.compat.stories_of_share_groups import SHARE_STORIES
from evidence.compat.stories_of_tools import STORIES, Story
from evidence.compat.tool_runner import ToolRunner
from evidence.differential.brokers import ApacheKafkaNode, OncelogNode

pytestmark = [pytest.mark.compat, pytest.mark.slow]
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Both, the same config, each with a JVM for its tools."""
    launcher = find_launcher()
    work = tmp_path_factory.mktemp("tools")
    theirs, ours = work / "theirs", work / "ours"
    with (
        ApacheKafkaNode(theirs, launcher, CONFIG) as kafka,
        OncelogNode(ours, CONFIG) as oncelog,
        ToolRunner(launcher) as kafkas_tools,
        ToolRunner(launcher) as oncelogs_tools,
    ):
        yield (
            Story(kafkas_tools, "{}:{}".format(*kafka.address), theirs / "data", work),
            Story(oncelogs_tools, "{}:{}".format(*oncelog.address), ours, work),
        )


assert STORIES.keys() >= SHARE_STORIES, "they register with the others"


@pytest.mark.parametrize("name", STORIES)
def test_the_same_is_printed(brokers, name):
    def tell(teller: Story) -> list[str]:
        teller.lines = []
        STORIES[name](teller)
        return teller.lines

    with concurrent.futures.ThreadPoolExecutor(len(brokers)) as both:
        kafkas, oncelogs = both.map(tell, brokers)
    differing = [line for line in difflib.unified_diff(kafkas, oncelogs, lineterm="") if not line.startswith("@@")]
    assert not differing, "\n".join(differing)
    assert any(not line.startswith("$") for line in kafkas), "the tools said something"

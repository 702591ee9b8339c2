"""What a handler may ask of its broker: one value with the parts that answer, and nothing that starts or stops them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from oncelog.broker.config.addresses import Address
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.config.config_view import BrokerValues
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.coordinators.groups import Groups
from oncelog.broker.coordinators.marker_writer import MarkerWriter
from oncelog.broker.coordinators.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.coordinators.routes import RoutedGate
from oncelog.broker.coordinators.transaction_gate import TransactionGate
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.metadata.described_topics import DescribedTopics
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.partitions import Partitions
from oncelog.broker.requests.request import Request
from oncelog.broker.share.share_groups import ShareGroups
from oncelog.core.leader.fetch_session import FetchSessions
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.configs import BrokerKeys
from oncelog.core.metadata.leadership import Leadership
from oncelog.host.clock import Clock
from oncelog.host.randomness import Random
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    from oncelog.broker.admission.authorization import Authorization
    from oncelog.broker.metadata.followed_metadata import FollowedMetadata
    from oncelog.broker.metrics.client_metrics import ClientMetrics
    from oncelog.broker.share.share_partitions import SharePartitions


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One broker as its handlers see it. `cluster_id` and `data_directory` are known once the directory is read."""

    configuration: Configuration
    leadership: Leadership
    store: MetadataStore | FollowedMetadata
    partitions: Partitions
    topics: Topics
    producer_id_blocks: ProducerIdBlocks
    transactions: Transactions
    groups: Groups
    gate: TransactionGate | RoutedGate
    marker_writer: MarkerWriter
    fetch_sessions: FetchSessions
    share_groups: ShareGroups
    authorization: Authorization | None
    metrics: Metrics
    client_metrics: Callable[[], ClientMetrics]  # made when it is first asked for
    clock: Clock
    random: Random
    data_directory: str
    disk_space: Callable[[str], tuple[int, int]]  # of a directory: total and free bytes, -1 unknown
    fetch_bytes_max: Callable[[], int]  # what one fetch may answer with now
    advertised: Callable[[str], Address]  # by a listener's name; "": the first one's
    cluster_id: str = ""
    described_topics: DescribedTopics = field(init=False)
    is_offline: Callable[[TopicPartition], bool] = field(init=False)  # in whichever process

    def __post_init__(self) -> None:
        self.is_offline = self.partitions.is_offline if self.leadership.is_alone else self._is_offline_anywhere
        self.described_topics = DescribedTopics(lambda: self.metadata, self.leadership, self.is_offline)

    def _is_offline_anywhere(self, name: TopicPartition) -> bool:
        return self.partitions.is_offline(name) or name in self.store.offline

    @property
    def node_id(self) -> int:
        """This broker's id."""
        return self.configuration.static.node_id

    @property
    def config(self) -> BrokerConfig:
        """The configuration in force."""
        return self.configuration.current

    @property
    def metadata(self) -> ClusterMetadata:
        """The cluster's metadata as of now."""
        return self.store.metadata

    @property
    def share_partitions(self) -> SharePartitions:
        """What share groups have, for whom needs it."""
        return self.share_groups.share_partitions

    @property
    def advertised_address(self) -> Address:
        """The address that clients of the first listener are told."""
        return self.advertised("")

    def address_told(self, request: Request) -> Address:
        """The address a client is told: of the listener that it came by."""
        return self.advertised(request.connection.listener_name)

    def addresses_told(self, request: Request) -> dict[int, Address]:
        """The addresses of all brokers, by their ids: the processes of one machine listen on ports in a row, in the order of
        their ids."""
        host, port = self.address_told(request)
        own = self.node_id
        return {node_id: Address(host, port + node_id - own) for node_id in self.leadership.node_ids}

    def config_values(self) -> BrokerValues:
        """Where this broker's values come from."""
        return self.configuration.values(self.metadata)

    def dynamic_keys(self) -> BrokerKeys:
        """What may be altered while the broker runs."""
        return self.configuration.dynamic_keys()

    def configs_changed(self) -> None:
        """Take over the dynamic configuration of the metadata."""
        self.configuration.follow(self.metadata)
        self.partitions.configs_changed()
        self.groups.configs_changed()

package oncelog.kafkatests;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.mockito.Mockito;
import org.mockito.stubbing.Answer;

/** A broker of another process as Kafka's tests see brokers: what can be asked over the wire is; anything else skips the test. */
final class OutsideView {
    private final Admin admin;
    private final Clusters.Running running;

    OutsideView(Admin admin, Clusters.Running running) {
        this.admin = admin;
        this.running = running;
    }

    KafkaBroker broker(int brokerId, Map<String, String> properties) {
        KafkaConfig config = config(brokerId, properties);
        SocketServer sockets = view(SocketServer.class, Map.of("boundPort", call -> running.port()));
        KRaftMetadataCache metadata = view(KRaftMetadataCache.class, Map.of(
            "numPartitions", call -> describe(call.getArgument(0)).map(topic -> topic.partitions().size()),
            "contains", call -> describe(call.getArgument(0)).isPresent(),
            "getLeaderAndIsr", call -> describe(call.getArgument(0)).map(topic -> leader(topic, call.getArgument(1)))));
        GroupCoordinator groups = view(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", call -> compacted()));
        SharedServer applied = view(SharedServer.class, Map.of("loader", call -> view(MetadataLoader.class, Map.of("lastAppliedOffset", it -> 0L))));
        return view(BrokerServer.class, Map.of(
            "config", call -> config,
            "sharedServer", call -> applied,
            "socketServer", call -> sockets,
            "boundPort", call -> running.port(),
            "metadataCache", call -> metadata,
            "groupCoordinator", call -> groups));
    }

    /** Its log is said to be empty, so nothing is waited for there: what a test changes is waited for by asking the broker. */
    ControllerServer controller() {
        RaftLog log = view(RaftLog.class, Map.of("endOffset", call -> new LogOffsetMetadata(0)));
        KafkaRaftManager<?> raft = view(KafkaRaftManager.class, Map.of("raftLog", call -> log));
        Controller controller = view(Controller.class, Map.of("findAllTopicIds", call -> CompletableFuture.completedFuture(topicIds())));
        return view(ControllerServer.class, Map.of("raftManager", call -> raft, "controller", call -> controller));
    }

    private Map<String, Uuid> topicIds() throws InterruptedException, ExecutionException {
        return admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get().stream()
            .collect(Collectors.toMap(TopicListing::name, TopicListing::topicId));
    }

    private static <T> T view(Class<T> type, Map<String, Answer<?>> known) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String name = call.getMethod().getName();
            Answer<?> answer = known.get(name);
            if (answer != null) {
                return answer.answer(call);
            }
            if (name.equals("toString")) {
                return "a " + type.getSimpleName() + " of another process";
            }
            throw Clusters.needs("the broker's insides: " + type.getSimpleName() + "." + name);
        }));
    }

    private static KafkaConfig config(int brokerId, Map<String, String> properties) {
        Properties all = new Properties();
        all.put("process.roles", "broker");
        all.put("node.id", String.valueOf(brokerId));
        all.put("controller.quorum.voters", "1000@127.0.0.1:1");
        all.put("controller.listener.names", "CONTROLLER");
        all.put("listeners", "PLAINTEXT://127.0.0.1:0");
        all.putAll(properties);
        return new KafkaConfig(all, false);
    }

    private Optional<TopicDescription> describe(String topic) throws InterruptedException, ExecutionException {
        try {
            return Optional.of(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw error;
        }
    }

    private static LeaderAndIsr leader(TopicDescription topic, int partition) {
        var info = topic.partitions().get(partition);
        if (info.leader() == null) {
            throw new KafkaException("no leader of " + topic.name() + "-" + partition);
        }
        return new LeaderAndIsr(info.leader().id(), info.isr().stream().map(node -> node.id()).toList());
    }

    private static Properties compacted() {
        Properties configs = new Properties();
        configs.put("cleanup.policy", "compact");
        configs.put("compression.type", "producer");
        return configs;
    }
}

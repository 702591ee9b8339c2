package oncelog.kafkatests;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;

/** The cluster that `@ClusterTest` asks for: one broker in another process, with the server properties of the annotation. */
public final class OutsideCluster implements ClusterInstance {
    private static final int CONTROLLER_ID = 3000;
    private final ClusterConfig config;
    private final Map<String, String> properties;
    private Clusters.Running running;
    private Admin admin;
    private KafkaBroker broker;
    private ControllerServer controller;
    private int brokerId;
    private boolean stopped;

    public OutsideCluster(ClusterConfig config) {
        this.config = config;
        this.properties = new HashMap<>(config.serverProperties());
    }

    /** Why the cluster that is asked for cannot be had; empty where it can. */
    private Optional<String> tooMuch() {
        if (config.numBrokers() > 1) {
            return Optional.of(config.numBrokers() + " brokers");
        }
        if (config.numControllers() > 1) {
            return Optional.of(config.numControllers() + " controllers");
        }
        if (config.numDisksPerBroker() > 1) {
            return Optional.of(config.numDisksPerBroker() + " disks");
        }
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            return Optional.of("a listener of " + config.brokerSecurityProtocol());
        }
        if (!config.perServerOverrideProperties().isEmpty()) {
            return Optional.of("properties of single servers");
        }
        return Optional.empty();
    }

    @Override
    public void start() {
        tooMuch().ifPresent(what -> {
            throw Clusters.needs(what);
        });
        running = Clusters.start(properties);
        admin = Admin.create(Map.of("bootstrap.servers", running.bootstrapServers()));
        try {
            brokerId = admin.describeCluster().nodes().get().iterator().next().id();
            finalizeFeatures();
        } catch (InterruptedException | ExecutionException error) {
            throw new KafkaException(error);
        }
        Map<String, String> told = new HashMap<>(properties);
        told.put("unstable.api.versions.enable", "false");
        OutsideView view = new OutsideView(admin, running);
        broker = view.broker(brokerId, told);
        controller = view.controller();
    }

    private void finalizeFeatures() throws InterruptedException, ExecutionException {
        Map<String, FinalizedVersionRange> now = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        Map<String, FeatureUpdate> updates = new TreeMap<>();
        for (Map.Entry<Feature, Short> wanted : config.features().entrySet()) {
            String name = wanted.getKey().featureName();
            FinalizedVersionRange range = now.get(name);
            short level = range == null ? 0 : range.maxVersionLevel();
            if (level != wanted.getValue()) {
                var type = level < wanted.getValue() ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE;
                updates.put(name, new FeatureUpdate(wanted.getValue(), type));
            }
        }
        if (!updates.isEmpty()) {
            admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
        }
    }

    @Override
    public void stop() {
        if (running != null && !stopped) {
            stopped = true;
            if (admin != null) {
                admin.close();
            }
            Clusters.stop(running);
        }
    }

    @Override
    public boolean started() {
        return running != null;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return Map.of(brokerId, broker);
    }

    @Override
    public Map<Integer, KafkaBroker> aliveBrokers() {
        return brokers();
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(CONTROLLER_ID, controller);
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(CONTROLLER_ID);
    }

    @Override
    public Set<Integer> brokerIds() {
        return Set.of(brokerId);
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return running.bootstrapServers();
    }

    @Override
    public String bootstrapControllers() {
        throw Clusters.needs("a controller's listener");
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw Clusters.needs("a controller's listener");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return List.of(running.port());
    }

    @Override
    public String clusterId() {
        try {
            return admin.describeCluster().clusterId().get();
        } catch (InterruptedException | ExecutionException error) {
            throw new KafkaException(error);
        }
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String protocols = properties.getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer,streams");
        return protocols.contains("consumer") ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void shutdownBroker(int id) {
        throw Clusters.needs("a broker stopped in the middle");
    }

    @Override
    public void startBroker(int id) {
        throw Clusters.needs("a broker started in the middle");
    }

    @Override
    public void waitForReadyBrokers() {
        // it said so before it was handed out
    }

    @Override
    public void ensureConsistentMetadata() {
        // one broker, which answered
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        waitUntil(topic, partitions);
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        waitUntil(topic, 0);
    }

    private void waitUntil(String topic, int partitions) throws InterruptedException {
        long deadline = System.currentTimeMillis() + 60_000;
        while (broker.metadataCache().numPartitions(topic).orElse(0) != partitions) {
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("topic " + topic + " never had " + partitions + " partitions");
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void waitAcls(AclBindingFilter filter, java.util.Collection<AccessControlEntry> entries) {
        throw Clusters.needs("the authorizer's insides");
    }
}

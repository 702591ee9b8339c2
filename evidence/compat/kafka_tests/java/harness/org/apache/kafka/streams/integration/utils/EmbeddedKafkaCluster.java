package org.apache.kafka.streams.integration.utils;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import oncelog.kafkatests.Clusters;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.server.util.MockTime;

/** Stands in the place of Kafka's class of this name, which Maven does not have: one broker in another process, however many are asked for. */
public class EmbeddedKafkaCluster {
    /** Timestamps of records; nothing else is told the time. */
    public final MockTime time;
    private final Map<String, String> properties = new HashMap<>();
    private Clusters.Running running;

    public EmbeddedKafkaCluster(int brokers, Properties asked) {
        time = new MockTime(System.currentTimeMillis(), System.nanoTime());
        properties.put("group.initial.rebalance.delay.ms", "0");
        properties.put("offsets.topic.num.partitions", "5");
        asked.forEach((key, value) -> properties.put(key.toString(), value.toString()));
    }

    public void start() {
        running = Clusters.start(properties);
    }

    public void stop() {
        if (running != null) {
            Clusters.stop(running);
        }
    }

    public String bootstrapServers() {
        return running.bootstrapServers();
    }

    public Admin createAdminClient() {
        return Admin.create(Map.of("bootstrap.servers", bootstrapServers()));
    }

    public void createTopic(String topic, int partitions) throws InterruptedException {
        createTopic(topic, partitions, 1);
    }

    public void createTopic(String topic, int partitions, int replicas) throws InterruptedException {
        if (replicas > 1) {
            throw Clusters.needs(replicas + " replicas");
        }
        try (Admin admin = createAdminClient()) {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.of((short) replicas)))).all().get();
        } catch (ExecutionException error) {
            throw new KafkaException(error.getCause());
        }
    }

    public Set<String> getAllTopicsInCluster() {
        try (Admin admin = createAdminClient()) {
            return admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        } catch (InterruptedException | ExecutionException error) {
            throw new KafkaException(error);
        }
    }
}

package org.apache.kafka.common.test;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import kafka.server.BrokerServer;
import oncelog.kafkatests.Clusters;
import org.apache.kafka.controller.Controller;

/**
 * Stands in the place of the class of this name in Kafka 4.0's test kit: a broker in another process.
 *
 * The test is of 4.0, the client of 4.3, where a share consumer is told beforehand whether each record is acknowledged by name
 * (`share.acknowledgement.mode`); in 4.0 the first acknowledgement told it. The mode of the method that runs comes with the
 * client properties.
 */
public class KafkaClusterTestKit implements AutoCloseable {
    private final Map<String, String> properties;
    private Clusters.Running running;

    private KafkaClusterTestKit(Map<String, String> properties) {
        this.properties = properties;
    }

    /** What a test asks for. */
    public static class Builder {
        private final Map<String, String> properties = new HashMap<>();

        public Builder(TestKitNodes nodes) {
        }

        public Builder setConfigProp(String key, Object value) {
            properties.put(key, value.toString());
            return this;
        }

        public KafkaClusterTestKit build() {
            // Apache Kafka 4.3 assigns with a member's second heartbeat, 4.0 did with the first; the test polls once, for five seconds
            properties.put("group.share.min.heartbeat.interval.ms", "500");
            properties.put("group.share.heartbeat.interval.ms", "500");
            properties.put("group.share.max.partition.max.record.locks", "10000"); // 4.3 has a bound on what the test sets
            return new KafkaClusterTestKit(properties);
        }
    }

    public void format() {
        // a fresh one each time
    }

    public void startup() {
        running = Clusters.start(properties);
    }

    public Controller waitForActiveController() {
        return null; // nothing is asked of it
    }

    public void waitForReadyBrokers() {
        // it said so before it was handed out
    }

    public Map<Integer, BrokerServer> brokers() {
        return Map.of(0, new BrokerServer());
    }

    public Properties clientProperties() {
        Properties client = new Properties();
        client.put("bootstrap.servers", running.bootstrapServers());
        client.put("share.acknowledgement.mode", System.getProperty("oncelog.acknowledgement.mode"));
        return client;
    }

    @Override
    public void close() {
        Clusters.stop(running);
    }
}

package org.apache.kafka.streams.integration.utils;

import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValueTimestamp;
import org.apache.kafka.streams.StreamsBuilder;

/** Stands in the place of Kafka's class of this name, which Maven does not have. */
public final class IntegrationTestUtils {
    private static final long RUNNING_MS = 60_000;

    private IntegrationTestUtils() {
    }

    public static KafkaStreams getStartedStreams(Properties config, StreamsBuilder builder, boolean clean) {
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        if (clean) {
            streams.cleanUp();
        }
        streams.start();
        return streams;
    }

    public static void startApplicationAndWaitUntilRunning(KafkaStreams streams) throws InterruptedException {
        streams.start();
        long deadline = System.currentTimeMillis() + RUNNING_MS;
        while (streams.state() != KafkaStreams.State.RUNNING) {
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("the application is still " + streams.state());
            }
            Thread.sleep(20);
        }
    }

    public static <K, V> void produceSynchronously(
            Properties config, boolean transactional, String topic, Optional<Integer> partition, List<KeyValueTimestamp<K, V>> records) {
        try (KafkaProducer<K, V> producer = new KafkaProducer<>(config)) {
            if (transactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (KeyValueTimestamp<K, V> each : records) {
                producer.send(new ProducerRecord<>(topic, partition.orElse(null), each.timestamp(), each.key(), each.value())).get();
            }
            if (transactional) {
                producer.commitTransaction();
            }
        } catch (InterruptedException | ExecutionException error) {
            throw new KafkaException(error);
        }
    }
}

// A Kafka Streams application with exactly_once_v2: words are counted and their numbers summed behind a repartition, in a
// state store; every change of a total is written. `WordTotals BOOTSTRAP STATE_DIRECTORY PARTITIONS PROTOCOL`, until it is
// killed. PROTOCOL: `classic`, or `streams` (KIP-1071), where the broker says how long a member may be silent.

import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;

public final class WordTotals {
    public static void main(String[] arguments) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-totals");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // every change goes out, so each can be looked at
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[3]);
        if (arguments[3].equals("classic")) {
            config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
            config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        }
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("words", Consumed.with(Serdes.String(), Serdes.String()))
            .map((number, line) -> KeyValue.pair(line.split(":")[0], line.split(":")[1]))
            .repartition(
                Repartitioned.<String, String>as("by-word").withKeySerde(Serdes.String()).withValueSerde(Serdes.String())
                    .withNumberOfPartitions(Integer.parseInt(arguments[2])))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(
                () -> "0:0",
                (word, number, total) -> add(total, number),
                Materialized.<String, String, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>
                    as("totals-store").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .toStream()
            .to("totals", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.out.println("uncaught " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((state, before) -> System.out.println("state " + state));
        streams.start();
    }

    static String add(String total, String number) {
        String[] parts = total.split(":");
        return (Long.parseLong(parts[0]) + 1) + ":" + (Long.parseLong(parts[1]) + Long.parseLong(number));
    }
}

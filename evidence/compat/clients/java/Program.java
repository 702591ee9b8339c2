// Apache Kafka's own Java clients: the checks of ../checks.py. `Program BOOTSTRAP PREFIX [CHECK ...]`, a JSON line per check.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Program {
    static final String COMMITTED = "read_committed";
    static final String UNCOMMITTED = "read_uncommitted";
    static final long WAIT_MS = 30_000;
    static final long TIMESTAMP_MS = System.currentTimeMillis() - 60_000;

    interface Check {
        void run() throws Exception;
    }

    final String bootstrap;
    final String prefix;
    final Admin admin;
    final Map<String, Check> checks = new LinkedHashMap<>();

    Program(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        admin = Admin.create(config(Map.of()));
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            checks.put("records-" + codec, () -> records(codec));
        }
        checks.put("idempotent", this::idempotent);
        checks.put("positions", this::positions);
        checks.put("resume", this::resume);
        checks.put("rebalance", () -> rebalance("classic"));
        checks.put("rebalance-848", () -> rebalance("consumer"));
        checks.put("commit-abort", this::commitAbort);
        checks.put("interleaved", this::interleaved);
        checks.put("held-back", this::heldBack);
        checks.put("fenced", this::fenced);
        checks.put("offsets", this::offsets);
        checks.put("topics", this::topics);
        checks.put("configs", this::configs);
        checks.put("groups", this::groups);
        checks.put("delete-records", this::deleteRecords);
    }

    public static void main(String[] arguments) {
        Program program = new Program(arguments[0], arguments[1]);
        List<String> names = List.of(arguments).subList(2, arguments.length);
        for (String name : names.isEmpty() ? List.copyOf(program.checks.keySet()) : names) {
            long began = System.nanoTime();
            String result = "passed";
            String detail = "";
            try {
                program.checks.get(name).run();
            } catch (Exception | AssertionError error) {
                error.printStackTrace();
                result = "failed";
                detail = error.toString().replace("\\", "/").replace("\"", "'").replaceAll("\\s+", " ");
            }
            double seconds = (System.nanoTime() - began) / 10_000_000 / 100.0;
            System.out.printf(
                "{\"check\": \"%s\", \"result\": \"%s\", \"detail\": \"%s\", \"seconds\": %s}%n", name, result, detail, seconds);
        }
        program.admin.close();
        System.exit(0);
    }

    // -- what the checks have in common

    Properties config(Map<String, Object> more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(more);
        return properties;
    }

    KafkaProducer<byte[], byte[]> producer(String transactionalId, String codec) {
        Map<String, Object> more = new HashMap<>(Map.of("compression.type", codec, "enable.idempotence", true));
        if (transactionalId != null) {
            more.put("transactional.id", prefix + "-" + transactionalId);
        }
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config(more), new ByteArraySerializer(), new ByteArraySerializer());
        if (transactionalId != null) {
            producer.initTransactions();
        }
        return producer;
    }

    KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        return producer(transactionalId, "none");
    }

    KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(Map.of("auto.offset.reset", "earliest", "enable.auto.commit", false));
        all.putAll(more);
        return new KafkaConsumer<>(config(all), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    KafkaConsumer<byte[], byte[]> assigned(String topic, int partitions, String isolationLevel) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", isolationLevel));
        List<TopicPartition> all = new ArrayList<>();
        for (int index = 0; index < partitions; index++) {
            all.add(new TopicPartition(topic, index));
        }
        consumer.assign(all);
        return consumer;
    }

    KafkaConsumer<byte[], byte[]> member(String topic, String group, String protocol) {
        Map<String, Object> more = new HashMap<>(
            Map.of("group.id", group, "group.protocol", protocol, "isolation.level", COMMITTED));
        if (protocol.equals("classic")) {
            more.put("session.timeout.ms", 6000);
            more.put("heartbeat.interval.ms", 300);
        }
        KafkaConsumer<byte[], byte[]> consumer = consumer(more);
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static void require(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    static void eventually(BooleanSupplier condition, String what) throws InterruptedException {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (!condition.getAsBoolean()) {
            require(System.currentTimeMillis() < deadline, "never: " + what);
            Thread.sleep(50);
        }
    }

    static <T> T get(org.apache.kafka.common.KafkaFuture<T> future) {
        try {
            return future.get();
        } catch (ExecutionException error) {
            throw error.getCause() instanceof KafkaException known ? known : new KafkaException(error.getCause());
        } catch (InterruptedException error) {
            throw new KafkaException(error);
        }
    }

    static long send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, String value) throws Exception {
        return producer.send(new ProducerRecord<>(topic, partition, null, bytes(value))).get().offset();
    }

    static void sendMany(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, String who, int first, int end)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int index = first; index < end; index++) {
            sent.add(producer.send(new ProducerRecord<>(topic, index % partitions, null, bytes(who + index))));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    String topic(String name, int partitions, Map<String, String> configs) throws InterruptedException {
        String topic = prefix + "-" + name;
        get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all());
        eventually(() -> get(admin.listTopics().names()).contains(topic), "the new topic is listed");
        return topic;
    }

    String topic(String name, int partitions) throws InterruptedException {
        return topic(name, partitions, Map.of());
    }

    static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, long milliseconds) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(milliseconds)).forEach(records::add);
        return records;
    }

    static List<ConsumerRecord<byte[], byte[]>> pollUntil(KafkaConsumer<byte[], byte[]> consumer, int count)
            throws InterruptedException {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        eventually(
            () -> {
                records.addAll(poll(consumer, 200));
                return records.size() >= count;
            },
            count + " records");
        return records;
    }

    /** `count` records, and whatever else comes in the half second after them. */
    List<ConsumerRecord<byte[], byte[]>> read(String topic, int count, String isolationLevel, int partitions) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = assigned(topic, partitions, isolationLevel)) {
            long deadline = System.currentTimeMillis() + WAIT_MS;
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                records.addAll(poll(consumer, 200));
            }
            long quiet = System.currentTimeMillis() + 500;
            while (System.currentTimeMillis() < quiet) {
                records.addAll(poll(consumer, 100));
            }
        }
        return records;
    }

    List<String> values(String topic, int count, String isolationLevel) {
        return read(topic, count, isolationLevel, 1).stream().map(record -> text(record.value())).toList();
    }

    void expect(List<String> expected, List<String> found) {
        require(expected.equals(found), found);
    }

    // -- records

    void records(String codec) throws Exception {
        String topic = topic("records-" + codec, 1);
        byte[] value = bytes("value ".repeat(400));
        try (KafkaProducer<byte[], byte[]> producer = producer(null, codec)) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, TIMESTAMP_MS, bytes("k"), value);
            record.headers().add("h", bytes("1"));
            require(producer.send(record).get().offset() == 0, "offset 0");
        }
        List<ConsumerRecord<byte[], byte[]>> records = read(topic, 1, COMMITTED, 1);
        require(records.size() == 1, records);
        ConsumerRecord<byte[], byte[]> record = records.get(0);
        require(text(record.key()).equals("k") && java.util.Arrays.equals(record.value(), value), record);
        require(text(record.headers().lastHeader("h").value()).equals("1"), record);
        require(record.offset() == 0 && record.timestamp() == TIMESTAMP_MS, record);
    }

    void idempotent() throws Exception {
        String topic = topic("idempotent", 3);
        try (KafkaProducer<byte[], byte[]> producer = producer(null, "gzip")) {
            for (int index = 0; index < 3; index++) {
                send(producer, topic, index, "" + index); // alone: scenario.py says why
            }
            sendMany(producer, topic, 3, "", 3, 1000);
        }
        List<ConsumerRecord<byte[], byte[]>> records = read(topic, 1000, COMMITTED, 3);
        for (int partition = 0; partition < 3; partition++) {
            int expected = partition;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                if (record.partition() == partition) {
                    require(text(record.value()).equals(String.valueOf(expected)), record);
                    expected += 3;
                }
            }
        }
        require(records.size() == 1000, records.size());
    }

    void positions() throws Exception {
        String topic = topic("positions", 1);
        TopicPartition where = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            for (int index = 0; index < 10; index++) {
                producer.send(new ProducerRecord<>(topic, 0, TIMESTAMP_MS + index, null, bytes("" + index))).get();
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = assigned(topic, 1, UNCOMMITTED)) {
            require(consumer.beginningOffsets(List.of(where)).get(where) == 0, "beginning");
            require(consumer.endOffsets(List.of(where)).get(where) == 10, "end");
            require(consumer.offsetsForTimes(Map.of(where, TIMESTAMP_MS + 5)).get(where).offset() == 5, "by time");
            consumer.seek(where, 7);
            List<Long> found = pollUntil(consumer, 3).stream().map(ConsumerRecord::offset).toList();
            require(found.equals(List.of(7L, 8L, 9L)), found);
        }
    }

    // -- groups

    long committed(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        TopicPartition where = new TopicPartition(topic, 0);
        OffsetAndMetadata found = consumer.committed(Set.of(where)).get(where);
        return found == null ? -1 : found.offset();
    }

    void resume() throws Exception {
        String topic = topic("resume", 1);
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            sendMany(producer, topic, 1, "", 0, 10);
            try (KafkaConsumer<byte[], byte[]> first = member(topic, prefix + "-resume", "classic")) {
                pollUntil(first, 10);
                first.commitSync();
            }
            sendMany(producer, topic, 1, "", 10, 15);
        }
        try (KafkaConsumer<byte[], byte[]> second = member(topic, prefix + "-resume", "classic")) {
            require(committed(second, topic) == 10, "committed");
            List<Long> found = pollUntil(second, 5).stream().map(ConsumerRecord::offset).toList();
            require(found.equals(List.of(10L, 11L, 12L, 13L, 14L)), found);
        }
    }

    void rebalance(String protocol) throws Exception {
        String topic = topic("rebalance-" + protocol, 4);
        String group = prefix + "-rebalance-" + protocol;
        Set<String> seen = new HashSet<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(null);
                KafkaConsumer<byte[], byte[]> staying = member(topic, group, protocol)) {
            sendMany(producer, topic, 4, "a", 0, 100);
            eventually(() -> see(seen, staying) && staying.assignment().size() == 4, "one member has all");
            try (KafkaConsumer<byte[], byte[]> leaving = member(topic, group, protocol)) {
                eventually(
                    () -> see(seen, staying, leaving) && staying.assignment().size() == 2 && leaving.assignment().size() == 2,
                    "two members share");
                Set<TopicPartition> all = new HashSet<>(staying.assignment());
                all.addAll(leaving.assignment());
                require(all.size() == 4, all);
                sendMany(producer, topic, 4, "b", 0, 100);
                eventually(() -> see(seen, staying, leaving) && seen.size() == 200, "every record is read");
            }
            eventually(() -> see(seen, staying) && staying.assignment().size() == 4, "the one that stays has all again");
            sendMany(producer, topic, 4, "c", 0, 100);
            eventually(() -> see(seen, staying) && seen.size() == 300, "every record is read");
        }
    }

    @SafeVarargs
    static boolean see(Set<String> seen, KafkaConsumer<byte[], byte[]>... members) {
        for (KafkaConsumer<byte[], byte[]> member : members) {
            poll(member, 100).forEach(record -> seen.add(text(record.value())));
        }
        return true;
    }

    // -- transactions

    void commitAbort() throws Exception {
        String topic = topic("commit-abort", 1);
        try (KafkaProducer<byte[], byte[]> producer = producer("commit-abort")) {
            for (int index = 0; index < 6; index++) {
                producer.beginTransaction();
                send(producer, topic, 0, "" + index);
                if (index % 3 == 1) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        expect(List.of("0", "2", "3", "5"), values(topic, 4, COMMITTED));
        expect(List.of("0", "1", "2", "3", "4", "5"), values(topic, 6, UNCOMMITTED));
    }

    void interleaved() throws Exception {
        String topic = topic("interleaved", 1);
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> a = producer("a");
                KafkaProducer<byte[], byte[]> b = producer("b");
                KafkaProducer<byte[], byte[]> plain = producer(null)) {
            for (int index = 0; index < 4; index++) {
                a.beginTransaction();
                b.beginTransaction();
                for (String part : List.of("x", "y")) {
                    send(a, topic, 0, "a" + index + part);
                    send(b, topic, 0, "b" + index + part);
                    send(plain, topic, 0, "p" + index + part);
                    expected.add((index % 2 == 1 ? "a" : "b") + index + part);
                    expected.add("p" + index + part);
                }
                if (index % 2 == 1) {
                    a.commitTransaction();
                    b.abortTransaction();
                } else {
                    a.abortTransaction();
                    b.commitTransaction();
                }
            }
        }
        expect(expected, values(topic, 16, COMMITTED));
    }

    void heldBack() throws Exception {
        String topic = topic("held-back", 1);
        List<String> all = List.of("before", "open", "after");
        try (KafkaProducer<byte[], byte[]> producer = producer("held-back"); KafkaProducer<byte[], byte[]> plain = producer(null)) {
            send(plain, topic, 0, "before");
            producer.beginTransaction();
            send(producer, topic, 0, "open");
            send(plain, topic, 0, "after");
            expect(List.of("before"), values(topic, 1, COMMITTED));
            expect(all, values(topic, 3, UNCOMMITTED));
            producer.commitTransaction();
            expect(all, values(topic, 3, COMMITTED));
        }
    }

    void fenced() throws Exception {
        String topic = topic("fenced", 1);
        KafkaProducer<byte[], byte[]> older = producer("fenced");
        older.beginTransaction();
        send(older, topic, 0, "older");
        try (KafkaProducer<byte[], byte[]> newer = producer("fenced")) {
            newer.beginTransaction();
            send(newer, topic, 0, "newer");
            newer.commitTransaction();
        }
        boolean isFenced = false;
        try {
            older.commitTransaction();
        } catch (KafkaException error) {
            System.err.println("fenced: " + error);
            isFenced = true;
        }
        older.close(Duration.ZERO);
        require(isFenced, "the older instance could commit");
        expect(List.of("newer"), values(topic, 1, COMMITTED));
    }

    void offsets() throws Exception {
        String source = topic("offsets", 1);
        String target = topic("offsets-copied", 1);
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            sendMany(producer, source, 1, "", 0, 20);
        }
        for (boolean commits : List.of(false, true)) {
            expected.clear();
            try (KafkaConsumer<byte[], byte[]> consumer = member(source, prefix + "-offsets", "classic");
                    KafkaProducer<byte[], byte[]> producer = producer("offsets")) {
                List<ConsumerRecord<byte[], byte[]>> records = pollUntil(consumer, 20);
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.send(new ProducerRecord<>(target, 0, null, record.value()));
                    expected.add(text(record.value()));
                }
                TopicPartition where = new TopicPartition(source, 0);
                producer.sendOffsetsToTransaction(
                    Map.of(where, new OffsetAndMetadata(consumer.position(where))), consumer.groupMetadata());
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
        require(expected.size() == 20, expected);
        expect(expected, values(target, 20, COMMITTED));
        require(values(target, 40, UNCOMMITTED).size() == 40, "both copies are in the log");
        try (KafkaConsumer<byte[], byte[]> consumer = member(source, prefix + "-offsets", "classic")) {
            eventually(() -> committed(consumer, source) == 20, "offset 20 is committed");
        }
    }

    // -- admin

    int partitionCount(String topic) {
        return get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
    }

    void topics() throws Exception {
        String topic = topic("topics", 3, Map.of("retention.ms", "12345678"));
        require(partitionCount(topic) == 3, "three partitions");
        try {
            get(admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all());
            require(false, "a topic was created twice");
        } catch (TopicExistsException expected) {
            require(true, expected);
        }
        get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
        eventually(() -> partitionCount(topic) == 5, "five partitions");
        get(admin.deleteTopics(List.of(topic)).all());
        eventually(() -> !get(admin.listTopics().names()).contains(topic), "the topic is gone");
    }

    Config described(ConfigResource resource) {
        return get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    }

    void configs() throws Exception {
        ConfigResource topic =
            new ConfigResource(ConfigResource.Type.TOPIC, topic("configs", 1, Map.of("retention.ms", "12345678")));
        require(described(topic).get("retention.ms").value().equals("12345678"), described(topic));
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("max.message.bytes", "54321"), AlterConfigOp.OpType.SET);
        get(admin.incrementalAlterConfigs(Map.<ConfigResource, Collection<AlterConfigOp>>of(topic, List.of(change))).all());
        eventually(() -> described(topic).get("max.message.bytes").value().equals("54321"), "the new value");
        String node = String.valueOf(get(admin.describeCluster().nodes()).iterator().next().id());
        Config broker = described(new ConfigResource(ConfigResource.Type.BROKER, node));
        require(broker.get("transactional.id.expiration.ms").value().matches("\\d+"), "a broker's config");
    }

    String state(String group) {
        return get(admin.describeConsumerGroups(List.of(group)).all()).get(group).groupState().toString();
    }

    void groups() throws Exception {
        String topic = topic("groups", 1);
        String group = prefix + "-groups";
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            sendMany(producer, topic, 1, "x", 0, 3);
        }
        try (KafkaConsumer<byte[], byte[]> member = member(topic, group, "classic")) {
            pollUntil(member, 3);
            member.commitSync();
            require(state(group).equals("Stable"), state(group));
            require(committed(member, topic) == 3, "committed");
        }
        eventually(() -> state(group).equals("Empty"), "the group is empty");
        require(listed().contains(group), "listed");
        get(admin.deleteConsumerGroups(List.of(group)).all());
        eventually(() -> !listed().contains(group), "the group is gone");
    }

    Set<String> listed() {
        Set<String> names = new TreeSet<>();
        get(admin.listGroups(new ListGroupsOptions()).all()).forEach(group -> names.add(group.groupId()));
        return names;
    }

    void deleteRecords() throws Exception {
        String topic = topic("delete-records", 1);
        TopicPartition where = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            sendMany(producer, topic, 1, "", 0, 10);
        }
        get(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(4))).all());
        try (KafkaConsumer<byte[], byte[]> consumer = assigned(topic, 1, UNCOMMITTED)) {
            eventually(() -> consumer.beginningOffsets(List.of(where)).get(where) == 4, "the log starts at 4");
        }
        List<Long> found = read(topic, 6, COMMITTED, 1).stream().map(ConsumerRecord::offset).toList();
        require(found.equals(List.of(4L, 5L, 6L, 7L, 8L, 9L)), found);
    }
}

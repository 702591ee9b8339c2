// Transactions of Apache Kafka's own Java client, one in five aborted, written down as evidence/crash/confluent_worker.py does.
// `TransactionalWorker BOOTSTRAP JOURNAL NUMBER [TRANSACTIONS]`, until SIGTERM or as many transactions as that. Values and
// places are those of evidence/crash/workers.py: NUMBER * 100,000,000 + 1, 2, ..., each sent once, into crash.txn.

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class TransactionalWorker {
    static final String TOPIC = "crash.txn";
    static final int PARTITIONS = 4;
    static final long VALUES_PER_WORKER = 100_000_000L;

    /** The outcome cannot be known, and this producer is over. */
    static final class Unknown extends Exception {
        Unknown(Exception cause) {
            super(cause);
        }
    }

    interface Step {
        void run();
    }

    record Sent(int partition, long value, Future<RecordMetadata> future) {
    }

    final String bootstrap;
    final long number;
    final FileOutputStream journal;
    final Random random;
    long lastValue;
    volatile boolean isStopped;

    TransactionalWorker(String bootstrap, String journal, long number) throws IOException {
        this.bootstrap = bootstrap;
        this.number = number;
        this.journal = new FileOutputStream(journal, true);
        this.random = new Random(number);
        this.lastValue = number * VALUES_PER_WORKER;
    }

    public static void main(String[] arguments) throws Exception {
        TransactionalWorker worker = new TransactionalWorker(arguments[0], arguments[1], Long.parseLong(arguments[2]));
        long transactions = arguments.length > 3 ? Long.parseLong(arguments[3]) : Long.MAX_VALUE;
        CountDownLatch isOver = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            worker.isStopped = true;
            try {
                isOver.await();
            } catch (InterruptedException error) {
                Runtime.getRuntime().halt(1);
            }
            Runtime.getRuntime().halt(0); // SIGTERM would be status 143
        }));
        int status = 1;
        try {
            worker.work(transactions);
            status = 0;
        } finally {
            if (status != 0) {
                Runtime.getRuntime().halt(status);
            }
            isOver.countDown();
        }
    }

    void work(long transactions) throws IOException {
        long left = transactions;
        while (!isStopped && left > 0) {
            KafkaProducer<byte[], byte[]> producer = producer();
            try {
                try {
                    again(producer::initTransactions);
                } catch (KafkaException error) {
                    throw new Unknown(error);
                }
                while (!isStopped && left > 0) {
                    oneTransaction(producer, random.nextDouble() < 0.8);
                    left--;
                }
            } catch (Unknown error) {
                System.err.println("java: producer is over: " + error.getCause());
            } finally {
                producer.close(Duration.ZERO);
            }
        }
    }

    KafkaProducer<byte[], byte[]> producer() {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", "crash-java");
        config.put("linger.ms", 0);
        config.put("max.block.ms", 30_000);
        config.put("reconnect.backoff.ms", 20);
        config.put("reconnect.backoff.max.ms", 100);
        config.put("retry.backoff.ms", 20);
        config.put("retry.backoff.max.ms", 200);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** The step until it does not only time out: an EndTxn that was sent is asked for again. */
    void again(Step step) {
        while (true) {
            try {
                step.run();
                return;
            } catch (TimeoutException error) {
                System.err.println("java: again after " + error);
            }
        }
    }

    void oneTransaction(KafkaProducer<byte[], byte[]> producer, boolean commits) throws IOException, Unknown {
        int count = 1 + random.nextInt(6);
        List<Sent> planned = new ArrayList<>();
        int[] places = {random.nextInt(PARTITIONS), random.nextInt(PARTITIONS), random.nextInt(PARTITIONS)};
        for (int index = 0; index < count; index++) {
            planned.add(new Sent(places[random.nextInt(places.length)], ++lastValue, null));
        }
        write("invoke", planned);
        List<Sent> sent = new ArrayList<>(planned);
        String outcome = "info";
        try {
            producer.beginTransaction();
            try {
                for (int index = 0; index < count; index++) {
                    Sent each = planned.get(index);
                    sent.set(index, new Sent(each.partition(), each.value(), producer.send(
                        new ProducerRecord<>(TOPIC, each.partition(), null, payload(each.value())))));
                }
                if (commits) {
                    again(producer::commitTransaction);
                    outcome = "ok";
                } else {
                    producer.flush();
                }
            } catch (KafkaException error) {
                System.err.println("java: aborting after " + error); // one that is fatal refuses the abort, too
            }
            if (!outcome.equals("ok")) {
                again(producer::abortTransaction);
                outcome = "fail";
            }
        } catch (KafkaException | IllegalStateException error) {
            throw new Unknown(error);
        } finally {
            write(outcome, sent);
        }
    }

    byte[] payload(long value) {
        return (value + " ".repeat(random.nextInt(200))).getBytes(StandardCharsets.US_ASCII);
    }

    /** One line in one write; nanoTime is the clock of Python's monotonic_ns. */
    void write(String type, List<Sent> records) throws IOException {
        StringBuilder line = new StringBuilder("{\"type\": \"" + type + "\", \"process\": " + number * 100);
        line.append(", \"time\": ").append(System.nanoTime()).append(", \"f\": \"txn\", \"value\": [");
        for (int index = 0; index < records.size(); index++) {
            Sent each = records.get(index);
            line.append(index == 0 ? "" : ", ").append("[\"send\", \"" + TOPIC + "-").append(each.partition());
            line.append("\", [").append(offset(each.future())).append(", ").append(each.value()).append("]]");
        }
        journal.write(line.append("]}\n").toString().getBytes(StandardCharsets.US_ASCII));
    }

    /** The offset that an acknowledgement named, "null" where there was none. */
    static String offset(Future<RecordMetadata> future) {
        if (future == null || !future.isDone()) {
            return "null";
        }
        try {
            RecordMetadata told = future.get();
            return told.hasOffset() ? Long.toString(told.offset()) : "null";
        } catch (ExecutionException | InterruptedException | RetriableException error) {
            return "null";
        }
    }
}

// Apache Kafka's own Java clients over secured listeners: a step of ../security/ways.py. Settings as JSON on stdin, a JSON line back.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Secured {
    static final long WAIT_MS = 30_000;
    static final long REFUSED_WITHIN_MS = 20_000;
    static final Duration PAUSE = Duration.ofMillis(50);
    static final String MODULES = "org.apache.kafka.common.security.";

    final JsonNode given;
    final ObjectNode outcome = new ObjectMapper().createObjectNode();
    final Set<String> errors = new LinkedHashSet<>();
    KafkaProducer<String, String> producer;
    KafkaConsumer<String, String> consumer;

    Secured(JsonNode given) {
        this.given = given;
        outcome.put("result", "passed").put("detail", "").put("committed", 0);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // log4j writes there
        Secured secured = new Secured(new ObjectMapper().readTree(System.in));
        try {
            switch (secured.text("step")) {
                case "transaction" -> secured.transaction();
                case "wrong" -> secured.wrong();
                default -> secured.load();
            }
        } catch (Exception | AssertionError error) {
            error.printStackTrace();
            secured.outcome.put("result", "failed").put("detail", said(error));
        }
        secured.outcome.set("errors", new ObjectMapper().valueToTree(secured.errors));
        answers.println(secured.outcome);
        answers.flush();
        System.exit(0);
    }

    String text(String name) {
        return given.get(name).asText();
    }

    static String said(Throwable error) {
        String cause = error.getCause() == null ? "" : " (" + said(error.getCause()) + ")";
        return error.getClass().getSimpleName() + ": " + error.getMessage() + cause;
    }

    Map<String, Object> config() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", text("bootstrap"));
        config.put("client.id", text("name"));
        config.put("security.protocol", text("protocol"));
        if (!text("ca").isEmpty()) {
            config.put("ssl.truststore.type", "PEM");
            config.put("ssl.truststore.location", text("ca"));
        }
        if (!text("chained").isEmpty()) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.location", text("chained"));
        }
        String mechanism = text("mechanism");
        if (mechanism.equals("OAUTHBEARER")) {
            String url = "file://" + text("bearer_file");
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            config.put("sasl.oauthbearer.token.endpoint.url", url);
            config.put("sasl.login.callback.handler.class", MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
            config.put("sasl.jaas.config", MODULES + "oauthbearer.OAuthBearerLoginModule required;");
        } else if (!mechanism.isEmpty()) {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            String more = given.get("tokenauth").asBoolean() ? " tokenauth=\"true\"" : "";
            config.put("sasl.jaas.config", String.format(
                "%s%s required username=\"%s\" password=\"%s\"%s;", MODULES, module, text("user"), text("password"), more));
        }
        if (!mechanism.isEmpty()) {
            config.put("sasl.mechanism", mechanism);
        }
        return config;
    }

    void open() {
        Map<String, Object> config = config();
        config.put("transactional.id", text("name"));
        config.put("max.block.ms", text("step").equals("wrong") ? REFUSED_WITHIN_MS : WAIT_MS);
        if (producer != null) {
            producer.close(Duration.ofSeconds(1));
        }
        producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
    }

    void send(String value) throws Exception {
        producer.send(new ProducerRecord<>(text("topic"), value)).get();
    }

    List<String> read() {
        if (consumer == null) {
            Map<String, Object> config = config();
            config.putAll(Map.of("group.id", text("name"), "auto.offset.reset", "earliest", "isolation.level", "read_committed"));
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(text("topic")));
        }
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<String, String> each : consumer.poll(PAUSE)) {
            found.add(each.value());
        }
        return found;
    }

    List<String> readAll(List<String> wanted) {
        List<String> found = new ArrayList<>();
        for (long until = System.currentTimeMillis() + WAIT_MS; !found.containsAll(wanted); found.addAll(read())) {
            require(System.currentTimeMillis() < until, wanted.size() + " records did not come, " + found.size() + " did");
        }
        return found;
    }

    static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    void transaction() throws Exception {
        open();
        producer.beginTransaction();
        send("aborted");
        producer.abortTransaction();
        producer.beginTransaction();
        send("committed");
        producer.commitTransaction();
        List<String> found = readAll(List.of("committed"));
        require(found.equals(List.of("committed")), found.toString());
    }

    void wrong() {
        long began = System.currentTimeMillis();
        try {
            open();
        } catch (Exception error) {
            boolean isOwn = error instanceof AuthenticationException || error.getCause() instanceof AuthenticationException;
            boolean isLate = System.currentTimeMillis() - began >= REFUSED_WITHIN_MS;
            outcome.put("result", isOwn && !isLate ? "passed" : "refused").put("detail", said(error));
            return;
        }
        outcome.put("result", "failed").put("detail", "it came in");
    }

    void load() {
        open();
        List<String> committed = new ArrayList<>();
        List<String> found = new ArrayList<>();
        Set<String> unknown = new LinkedHashSet<>();
        double seconds = given.get("seconds").asDouble();
        long until = System.currentTimeMillis() + (long) (seconds * 1000);
        for (int number = 0; System.currentTimeMillis() < until; number++) {
            String value = Integer.toString(number);
            try {
                producer.beginTransaction();
                send(value);
                producer.commitTransaction();
                committed.add(value);
            } catch (Exception error) {
                errors.add(said(error));
                unknown.add(value);
                recover();
            }
            try {
                found.addAll(read());
            } catch (Exception error) {
                errors.add("reading: " + said(error));
            }
        }
        List<String> missing = new ArrayList<>(committed);
        missing.removeAll(new LinkedHashSet<>(found));
        found.addAll(readAll(missing));
        found.removeAll(unknown);
        require(found.equals(committed), "committed " + committed.size() + ", read " + found.size() + ", not the same");
        require(committed.size() > seconds / 2, "only " + committed.size() + " transactions");
        outcome.put("committed", committed.size());
    }

    void recover() {
        try {
            producer.abortTransaction();
        } catch (Exception error) {
            errors.add("aborting: " + said(error));
            open();
        }
    }
}

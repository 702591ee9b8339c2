import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

/** Apache Kafka by its own test kit, one broker after the other in this warm process: `start BASE64` and `stop NUMBER` on stdin. */
public final class ApacheClusters {
    private static final Map<String, String> ONE_BROKER = Map.of(
        "offsets.topic.replication.factor", "1",
        "transaction.state.log.replication.factor", "1",
        "transaction.state.log.min.isr", "1",
        "share.coordinator.state.topic.replication.factor", "1",
        "share.coordinator.state.topic.min.isr", "1");

    private ApacheClusters() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<String, KafkaClusterTestKit> running = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int number = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            try {
                if (words[0].equals("start")) {
                    KafkaClusterTestKit kit = start(new String(Base64.getDecoder().decode(words[1].substring(1)), StandardCharsets.UTF_8));
                    running.put(String.valueOf(++number), kit);
                    out.println("ready " + kit.bootstrapServers() + " " + number);
                } else {
                    KafkaClusterTestKit kit = running.remove(words[1]);
                    if (kit != null) {
                        kit.close();
                    }
                    out.println("stopped");
                }
            } catch (Exception error) {
                error.printStackTrace();
                out.println("failed " + error.toString().replaceAll("\\s+", " "));
            }
            out.flush();
        }
        System.exit(0);
    }

    private static BootstrapMetadata asReleased() {
        MetadataVersion version = MetadataVersion.latestProduction();
        Map<String, Short> levels = new HashMap<>();
        Feature.PRODUCTION_FEATURES.forEach(feature -> levels.put(feature.featureName(), feature.defaultLevel(version)));
        return BootstrapMetadata.fromVersions(version, levels, "released");
    }

    private static KafkaClusterTestKit start(String lines) throws Exception {
        TestKitNodes nodes = new TestKitNodes.Builder()
            .setBootstrapMetadata(asReleased()).setCombined(true).setNumBrokerNodes(1).setNumControllerNodes(1).build();
        KafkaClusterTestKit.Builder builder = new KafkaClusterTestKit.Builder(nodes);
        Map<String, String> properties = new HashMap<>(ONE_BROKER);
        lines.lines().forEach(line -> properties.put(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1)));
        properties.put("unstable.api.versions.enable", "false");
        properties.forEach(builder::setConfigProp);
        KafkaClusterTestKit kit = builder.build();
        try {
            kit.format();
            kit.startup();
            kit.waitForReadyBrokers();
            return kit;
        } catch (Exception error) {
            kit.close();
            throw error;
        }
    }
}

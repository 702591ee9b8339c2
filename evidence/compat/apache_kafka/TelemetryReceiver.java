import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Has Apache Kafka offer telemetry: it takes what clients push, and looks at nothing. Loaded as a Java agent, which is on the class path. */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    public static void premain(String arguments) {}
    @Override public void init(List<KafkaMetric> metrics) {}
    @Override public void metricChange(KafkaMetric metric) {}
    @Override public void metricRemoval(KafkaMetric metric) {}
    @Override public void close() {}
    @Override public void configure(Map<String, ?> configs) {}
    @Override public ClientTelemetryReceiver clientReceiver() { return this; }
    @Override public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {}
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Apache Kafka's own authorizer, asked through standard input. Fields are separated by tabs:
 * "W allows super-users" begins a world, "R type pattern name principal host operation permission" is a rule,
 * "Q type name principal host operation" asks about a resource, "T type principal host operation" about any of a type,
 * "E" ends the world: its answers are printed, a line of 0 and 1.
 */
public final class Decisions {
    private record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "asker";
        }

        public int correlationId() {
            return 0;
        }
    }

    private static Asker asker(String principal, String host) throws Exception {
        return new Asker(SecurityUtils.parseKafkaPrincipal(principal), InetAddress.getByName(host));
    }

    private static StandardAcl rule(String[] parts) {
        return new StandardAcl(
                ResourceType.fromCode(Byte.parseByte(parts[1])),
                parts[3],
                PatternType.fromCode(Byte.parseByte(parts[2])),
                parts[4],
                parts[5],
                AclOperation.fromCode(Byte.parseByte(parts[6])),
                AclPermissionType.fromCode(Byte.parseByte(parts[7])));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<Uuid, StandardAcl> rules = new HashMap<>();
        Map<String, String> config = new HashMap<>();
        StandardAuthorizer authorizer = null;
        StringBuilder answers = new StringBuilder();
        Metrics metrics = new Metrics();
        long number = 0;
        long worlds = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            if (authorizer == null && (parts[0].equals("Q") || parts[0].equals("T") || parts[0].equals("E"))) {
                authorizer = new StandardAuthorizer();
                authorizer.configure(config);
                authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of("world", String.valueOf(++worlds))));
                authorizer.loadSnapshot(rules);
                authorizer.completeInitialLoad();
            }
            switch (parts[0]) {
                case "W" -> {
                    config = new HashMap<>();
                    config.put(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, parts[1]);
                    config.put(StandardAuthorizer.SUPER_USERS_CONFIG, parts[2]);
                    rules = new HashMap<>();
                    answers.setLength(0);
                }
                case "R" -> rules.put(new Uuid(1, ++number), rule(parts));
                case "Q" -> {
                    ResourcePattern resource =
                            new ResourcePattern(ResourceType.fromCode(Byte.parseByte(parts[1])), parts[2], PatternType.LITERAL);
                    Action action = new Action(AclOperation.fromCode(Byte.parseByte(parts[5])), resource, 1, true, true);
                    List<AuthorizationResult> found = authorizer.authorize(asker(parts[3], parts[4]), List.of(action));
                    answers.append(found.get(0) == AuthorizationResult.ALLOWED ? '1' : '0');
                }
                case "T" -> {
                    AuthorizationResult found = authorizer.authorizeByResourceType(
                            asker(parts[2], parts[3]),
                            AclOperation.fromCode(Byte.parseByte(parts[4])),
                            ResourceType.fromCode(Byte.parseByte(parts[1])));
                    answers.append(found == AuthorizationResult.ALLOWED ? '1' : '0');
                }
                default -> {
                    out.println(answers);
                    out.flush();
                    authorizer.close();
                    authorizer = null;
                }
            }
        }
    }
}

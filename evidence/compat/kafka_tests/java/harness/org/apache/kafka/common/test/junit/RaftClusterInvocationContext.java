package org.apache.kafka.common.test.junit;

import java.util.List;
import oncelog.kafkatests.AskedTwice;
import oncelog.kafkatests.Clusters;
import oncelog.kafkatests.OutsideCluster;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/**
 * Stands in the place of Kafka's class of this name, which starts brokers in this process. What `@ClusterTest` means is read by
 * Kafka's own `ClusterTestExtensions`.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        boolean storesNothing = "".equals(config.serverProperties().get("group.share.persister.class.name"));
        return name + (index > 1 ? " [" + index + "]" : "") + (isCombined ? " broker and controller as one" : "")
            + (storesNothing ? AskedTwice.STORES_NOTHING : "");
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OutsideCluster cluster = new OutsideCluster(config);
        BeforeTestExecutionCallback start = context -> {
            if (isCombined) {
                throw Clusters.needs("nothing that the same test with a controller apart does not ask for");
            }
            if (config.isAutoStart()) {
                cluster.start();
            }
        };
        AfterTestExecutionCallback stop = context -> cluster.stop();
        return List.of(start, stop, new ClusterInstanceParameterResolver(cluster));
    }
}

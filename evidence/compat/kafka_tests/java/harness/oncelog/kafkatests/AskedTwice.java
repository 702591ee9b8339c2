package oncelog.kafkatests;

import org.apache.kafka.common.test.api.ClusterTests;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Tests that ask for a broker which stores nothing of its share groups (an implementation inside Kafka) also ask for one that does. */
public final class AskedTwice implements ExecutionCondition {
    /** How the names of such invocations of `@ClusterTest` end. */
    public static final String STORES_NOTHING = " without a persister";

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        String name = context.getDisplayName();
        boolean hasSiblings = context.getTestMethod().filter(method -> method.isAnnotationPresent(ClusterTests.class)).isPresent();
        if (name.contains("NoOpShareStatePersister") || (hasSiblings && name.endsWith(STORES_NOTHING))) {
            return ConditionEvaluationResult.disabled("needs a broker that stores nothing of its share groups; the same test runs with one that does");
        }
        return ConditionEvaluationResult.enabled("");
    }
}

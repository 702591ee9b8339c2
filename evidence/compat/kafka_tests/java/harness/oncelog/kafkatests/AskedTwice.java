package oncelog.kafkatests;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Tests that ask for a broker which stores nothing of its share groups (an implementation inside Kafka) also ask for one that does. */
public final class AskedTwice implements ExecutionCondition {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        if (context.getDisplayName().contains("NoOpShareStatePersister")) {
            return ConditionEvaluationResult.disabled("needs a broker that stores nothing of its share groups; the same test runs with one that does");
        }
        return ConditionEvaluationResult.enabled("");
    }
}

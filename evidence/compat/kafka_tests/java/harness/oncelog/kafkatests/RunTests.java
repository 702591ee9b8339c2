package oncelog.kafkatests;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs test classes by JUnit; writes a line for each test: status, milliseconds, class, method, invocation, reason. */
public final class RunTests implements TestExecutionListener {
    private final PrintWriter results;
    private final Map<String, Long> began = new HashMap<>();

    private RunTests(PrintWriter results) {
        this.results = results;
    }

    /** `RESULTS METHODS MORE CLASS...`: methods between commas, all with an empty text, all but those with a `-` before; both filters count. */
    public static void main(String[] arguments) throws IOException {
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(Arrays.stream(arguments).skip(3).map(name -> selectClass(name)).toList())
            .filters(only(arguments[1]), only(arguments[2]))
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.execution.timeout.default", "180 s")
            .build();
        try (PrintWriter results = new PrintWriter(Path.of(arguments[0]).toFile(), StandardCharsets.UTF_8)) {
            LauncherFactory.create().execute(request, new RunTests(results));
        }
        System.exit(0); // threads that a test left do not keep it
    }

    private static PostDiscoveryFilter only(String names) {
        boolean others = names.startsWith("-");
        List<String> methods = names.isEmpty() ? List.of() : Arrays.stream(names.split(",")).map(name -> name.replaceFirst("^-", "")).toList();
        return each -> FilterResult.includedIf(
            methods.isEmpty() || methodOf(each.getSource()).map(name -> methods.contains(name) != others).orElse(true));
    }

    private static Optional<String> methodOf(Optional<TestSource> source) {
        return source.filter(MethodSource.class::isInstance).map(each -> ((MethodSource) each).getMethodName());
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        began.put(test.getUniqueId(), System.currentTimeMillis());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        say("skipped", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean passed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
        if (test.isTest() || !passed) {
            String status = passed ? "passed" : result.getStatus() == TestExecutionResult.Status.ABORTED ? "skipped" : "failed";
            say(status, test, result.getThrowable().map(RunTests::reason).orElse(""));
        }
    }

    private void say(String status, TestIdentifier test, String reason) {
        Optional<MethodSource> method = test.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast);
        long took = System.currentTimeMillis() - began.getOrDefault(test.getUniqueId(), System.currentTimeMillis());
        String[] parts = {
            status, String.valueOf(took), method.map(MethodSource::getClassName).orElse(test.getLegacyReportingName()),
            method.map(MethodSource::getMethodName).orElse(""), test.getDisplayName(), reason,
        };
        results.println(String.join("\t", Arrays.stream(parts).map(part -> part.replaceAll("\\s+", " ")).toList()));
        results.flush();
    }

    private static String reason(Throwable error) {
        StringBuilder text = new StringBuilder(error instanceof org.opentest4j.TestAbortedException ? String.valueOf(error.getMessage()) : error.toString());
        if (!(error instanceof org.opentest4j.TestAbortedException)) {
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                text.append(" / ").append(cause);
            }
            Arrays.stream(error.getStackTrace()).filter(each -> each.getClassName().contains("Test") && !each.getClassName().contains("Utils"))
                .limit(3).forEach(each -> text.append(" at ").append(each.getFileName()).append(':').append(each.getLineNumber()));
        }
        return text.toString();
    }
}

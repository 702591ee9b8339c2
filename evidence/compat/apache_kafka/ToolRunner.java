import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs many of Apache Kafka's command-line tools in one JVM: a start of their own would cost each a second and more.
 * A line of stdin is one command: main class, arguments, and last what the tool reads, each in base64 with a dot before
 * it. The answer is a line: exit status, stdout, stderr. A tool that exits leaves its thread parked; its shutdown hooks
 * run before the answer, as they would at the end of a process.
 */
public final class ToolRunner {
    private static final long TIMEOUT_S = 90;
    private static volatile CompletableFuture<Integer> ended;
    private static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> leave(status));
        Exit.setHaltProcedure((status, message) -> leave(status));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = commands.readLine()) != null;) {
            String[] parts = Arrays.stream(line.split(" ")).map(ToolRunner::decoded).toArray(String[]::new);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(parts[parts.length - 1].getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int status = run(parts[0], Arrays.copyOfRange(parts, 1, parts.length - 1));
            System.out.flush();
            answers.println(status + " " + encoded(out) + " " + encoded(err));
            answers.flush();
        }
        System.exit(0);
    }

    private static int run(String mainClass, String[] arguments) throws Exception {
        HOOKS.clear();
        CompletableFuture<Integer> mine = new CompletableFuture<>();
        ended = mine;
        Thread thread = new Thread(() -> {
            try {
                Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
                mine.complete(0);
            } catch (InvocationTargetException error) {
                error.getCause().printStackTrace();
                mine.complete(1);
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
                mine.complete(127);
            }
        }, "tool");
        thread.setDaemon(true);
        thread.start();
        int status;
        try {
            status = mine.get(TIMEOUT_S, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            status = 124;
        }
        for (Runnable hook : HOOKS) {
            hook.run();
        }
        return status;
    }

    private static void leave(int status) {
        ended.complete(status);
        while (true) {
            LockSupport.park();
        }
    }

    private static String decoded(String part) {
        return new String(Base64.getDecoder().decode(part.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return "." + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}

package oncelog.kafkatests;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import org.opentest4j.TestAbortedException;

/** Brokers that the program beside this JVM starts and stops, asked for in one line over a socket. */
public final class Clusters {
    /** A broker that runs: where it listens, and its number for {@link #stop}. */
    public record Running(String bootstrapServers, String number) {
        public int port() {
            return Integer.parseInt(bootstrapServers.substring(bootstrapServers.lastIndexOf(':') + 1));
        }
    }

    private Clusters() {
    }

    /** One fresh broker with these server properties; the test is skipped where there can be none. */
    public static Running start(Map<String, String> properties) {
        StringBuilder lines = new StringBuilder();
        new TreeMap<>(properties).forEach((key, value) -> lines.append(key).append('=').append(value).append('\n'));
        byte[] bytes = lines.toString().getBytes(StandardCharsets.UTF_8);
        String[] answer = ask("start ." + Base64.getEncoder().encodeToString(bytes)).split(" ", 3);
        switch (answer[0]) {
            case "ready":
                return new Running(answer[1], answer[2]);
            case "skip":
                throw new TestAbortedException(answer[1] + (answer.length > 2 ? " " + answer[2] : ""));
            default:
                throw new IllegalStateException("no broker: " + String.join(" ", answer));
        }
    }

    public static void stop(Running running) {
        ask("stop " + running.number());
    }

    /** What a test asks for cannot be had of a broker in another process. */
    public static TestAbortedException needs(String what) {
        return new TestAbortedException("needs " + what);
    }

    private static String ask(String line) {
        try (Socket socket = new Socket("127.0.0.1", Integer.getInteger("oncelog.clusters"))) {
            socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
            socket.getOutputStream().flush();
            String answer = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
            return answer == null ? "failed: no answer" : answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

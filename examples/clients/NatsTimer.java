import com.fasterxml.jackson.databind.ObjectMapper;
import io.nats.client.*;
import io.nats.client.api.ConsumerConfiguration;
import java.time.*;
import java.util.*;

class NatsTimer {
  static final ObjectMapper json = new ObjectMapper();
  static long last;

  static synchronized long stamp() { // each command is newer than the one before, also within a millisecond
    return last = Math.max(last + 1, System.currentTimeMillis());
  }

  static void send(JetStream js, String type, String call, Map<String, String> rest) throws Exception {
    var payload = new HashMap<>(Map.of("tenantId", "acme", "serviceCallId", call));
    payload.putAll(rest);
    var command = Map.of("id", UUID.randomUUID().toString(), "type", type, "tenantId", "acme", "timestampMs", stamp(), "payload", payload);
    js.publish("timer.commands", json.writeValueAsBytes(command)); // until the broker has it
  }

  static Map<String, String> after(Duration wait) {
    return Map.of("dueAt", Instant.now().plus(wait).toString());
  }

  public static void main(String[] args) throws Exception {
    var connection = Nats.connect(System.getenv().getOrDefault("BROKER", "nats://127.0.0.1:4222"));
    var js = connection.jetStream();
    var order = "order-" + UUID.randomUUID();
    send(js, "ScheduleTimer", order, after(Duration.ofSeconds(1)));
    send(js, "ScheduleTimer", order + "-paid", after(Duration.ofHours(1)));
    send(js, "CancelTimer", order + "-paid", Map.of());

    var events = connection.getStreamContext("svc").createOrUpdateConsumer(
        ConsumerConfiguration.builder().durable("orders-java").filterSubject("svc.acme.serviceCall").build());
    var handled = new HashSet<String>(); // ids: keep them where your work is, in its transaction
    try (var messages = events.iterate()) {
      while (true) {
        var message = messages.nextMessage(Duration.ofSeconds(30));
        if (message == null) continue;
        var event = json.readTree(message.getData());
        if (event.path("type").asText().equals("DueTimeReached") && handled.add(event.path("id").asText())) {
          System.out.println(event.path("payload").path("serviceCallId").asText() + " is due");
        }
        message.ack();
      }
    }
  }
}

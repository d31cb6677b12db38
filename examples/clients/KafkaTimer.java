import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.*;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

class KafkaTimer {
  static final ObjectMapper json = new ObjectMapper();
  static long last;

  static synchronized long stamp() { // each command is newer than the one before, also within a millisecond
    return last = Math.max(last + 1, System.currentTimeMillis());
  }

  static void send(Producer<String, String> producer, String type, String call, Map<String, String> rest) throws Exception {
    var payload = new HashMap<>(Map.of("tenantId", "acme", "serviceCallId", call));
    payload.putAll(rest);
    var command = Map.of("id", UUID.randomUUID().toString(), "type", type, "tenantId", "acme", "timestampMs", stamp(), "payload", payload);
    var record = new ProducerRecord<>("timer.commands", "acme." + call, json.writeValueAsString(command));
    producer.send(record).get(); // until the broker has it
  }

  static Map<String, String> after(Duration wait) {
    return Map.of("dueAt", Instant.now().plus(wait).toString());
  }

  public static void main(String[] args) throws Exception {
    var servers = System.getenv().getOrDefault("BROKER", "127.0.0.1:9092");
    var order = "order-" + UUID.randomUUID();
    try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers), new StringSerializer(), new StringSerializer())) {
      send(producer, "ScheduleTimer", order, after(Duration.ofSeconds(1)));
      send(producer, "ScheduleTimer", order + "-paid", after(Duration.ofHours(1)));
      send(producer, "CancelTimer", order + "-paid", Map.of());
    }

    Map<String, Object> settings = Map.of(
        "bootstrap.servers", servers, "group.id", "orders-java", "auto.offset.reset", "earliest", "enable.auto.commit", "false");
    var handled = new HashSet<String>(); // ids: keep them where your work is, in its transaction
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("service.events"));
      while (true) {
        for (var message : consumer.poll(Duration.ofSeconds(1))) {
          var event = json.readTree(message.value());
          if (event.path("type").asText().equals("DueTimeReached") && event.path("tenantId").asText().equals("acme")
              && handled.add(event.path("id").asText())) {
            System.out.println(event.path("payload").path("serviceCallId").asText() + " is due");
          }
        }
        consumer.commitSync();
      }
    }
  }
}

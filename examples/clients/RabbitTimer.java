import com.fasterxml.jackson.databind.ObjectMapper;
import com.rabbitmq.client.*;
import java.time.*;
import java.util.*;

class RabbitTimer {
  static final ObjectMapper json = new ObjectMapper();
  static long last;

  static synchronized long stamp() { // each command is newer than the one before, also within a millisecond
    return last = Math.max(last + 1, System.currentTimeMillis());
  }

  static void send(Channel channel, String type, String call, Map<String, String> rest) throws Exception {
    var payload = new HashMap<>(Map.of("tenantId", "acme", "serviceCallId", call));
    payload.putAll(rest);
    var command = Map.of("id", UUID.randomUUID().toString(), "type", type, "tenantId", "acme", "timestampMs", stamp(), "payload", payload);
    channel.basicPublish("svc.direct.commands", "timer.commands", true, MessageProperties.PERSISTENT_BASIC, json.writeValueAsBytes(command));
    channel.waitForConfirmsOrDie(5000); // until the broker has it
  }

  static Map<String, String> after(Duration wait) {
    return Map.of("dueAt", Instant.now().plus(wait).toString());
  }

  public static void main(String[] args) throws Exception {
    var factory = new ConnectionFactory();
    factory.setUri(System.getenv().getOrDefault("BROKER", "amqp://guest:guest@127.0.0.1:5672"));
    var channel = factory.newConnection().createChannel();
    channel.confirmSelect();
    channel.addReturnListener(returned -> {
      System.err.println("there is no queue timer.commands: start the service first");
      System.exit(1);
    });
    var order = "order-" + UUID.randomUUID();
    send(channel, "ScheduleTimer", order, after(Duration.ofSeconds(1)));
    send(channel, "ScheduleTimer", order + "-paid", after(Duration.ofHours(1)));
    send(channel, "CancelTimer", order + "-paid", Map.of());

    channel.queueDeclare("svc.acme.q", true, false, false, null);
    channel.queueBind("svc.acme.q", "svc.direct", "svc.acme.q");
    channel.basicQos(100);
    var handled = new HashSet<String>(); // ids: keep them where your work is, in its transaction
    channel.basicConsume("svc.acme.q", false, (tag, message) -> {
      var event = json.readTree(message.getBody());
      if (event.path("type").asText().equals("DueTimeReached") && handled.add(event.path("id").asText())) {
        System.out.println(event.path("payload").path("serviceCallId").asText() + " is due");
      }
      channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
    }, tag -> {});
  }
}

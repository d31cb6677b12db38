import com.rabbitmq.client.*;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.CountDownLatch;

class OrderTimer {
  static long last;

  static synchronized long stamp() { // each command is newer than the one before, also within a millisecond
    return last = Math.max(last + 1, System.currentTimeMillis());
  }

  public static void main(String[] args) throws Exception {
    var factory = new ConnectionFactory();
    factory.setUri(System.getenv().getOrDefault("BROKER", "amqp://guest:guest@127.0.0.1:5672"));
    var now = Instant.now();
    var call = "order-" + now.toEpochMilli();
    var command = """
        {"id": "%s", "type": "ScheduleTimer", "tenantId": "acme", "timestampMs": %d,
         "payload": {"tenantId": "acme", "serviceCallId": "%s", "dueAt": "%s"}}
        """.formatted(UUID.randomUUID(), stamp(), call, now.plusSeconds(1));

    try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
      channel.confirmSelect();
      channel.basicPublish("", "timer.commands", true, MessageProperties.PERSISTENT_BASIC, command.getBytes("UTF-8"));
      channel.waitForConfirmsOrDie(5000); // until the broker has it

      channel.queueDeclare("svc.acme.q", true, false, false, null);
      channel.queueBind("svc.acme.q", "svc.direct", "svc.acme.q");
      var due = new CountDownLatch(1);
      channel.basicConsume("svc.acme.q", false, (tag, message) -> {
        var event = new String(message.getBody(), "UTF-8");
        System.out.println(event);
        channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        if (event.contains(call)) due.countDown();
      }, tag -> {});
      due.await(); // a program of yours goes on for ever
    }
  }
}

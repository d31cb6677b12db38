import json, os, time, uuid
from datetime import datetime, timedelta, timezone
import pika

connection = pika.BlockingConnection(pika.URLParameters(os.environ.get("BROKER", "amqp://guest:guest@127.0.0.1:5672/")))
channel = connection.channel()
channel.confirm_delivery()  # from here on a publish returns when the broker has the message, or raises
last = 0

def send(kind, call, **rest):
    global last
    last = max(last + 1, time.time_ns() // 1_000_000)  # newer than the command before, also within a millisecond
    command = {"id": str(uuid.uuid4()), "type": kind, "tenantId": "acme", "timestampMs": last,
               "payload": {"tenantId": "acme", "serviceCallId": call, **rest}}
    channel.basic_publish("svc.direct.commands", "timer.commands", json.dumps(command), pika.BasicProperties(delivery_mode=2), mandatory=True)

def after(**time):
    return (datetime.now(timezone.utc) + timedelta(**time)).isoformat()

order = f"order-{uuid.uuid4()}"
send("ScheduleTimer", order, dueAt=after(seconds=1))
send("ScheduleTimer", order + "-paid", dueAt=after(hours=1))
send("CancelTimer", order + "-paid")

channel.queue_declare("svc.acme.q", durable=True)
channel.queue_bind("svc.acme.q", "svc.direct", "svc.acme.q")
channel.basic_qos(prefetch_count=100)
handled = set()  # of ids: keep them where your work is, in its transaction
for method, _, body in channel.consume("svc.acme.q"):
    event = json.loads(body)
    if event.get("type") == "DueTimeReached" and event["id"] not in handled:
        print(event["payload"]["serviceCallId"], "is due", flush=True)
        handled.add(event["id"])
    channel.basic_ack(method.delivery_tag)

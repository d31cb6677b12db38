import json, os, time, uuid
from datetime import datetime, timedelta, timezone
from confluent_kafka import Consumer, Producer

servers = {"bootstrap.servers": os.environ.get("BROKER", "127.0.0.1:9092")}
producer = Producer({**servers, "enable.idempotence": True})
last = 0

def delivered(error, _):
    if error:
        raise SystemExit(f"the broker does not have it: {error}")

def send(kind, call, **rest):
    global last
    last = max(last + 1, time.time_ns() // 1_000_000)  # newer than the command before, also within a millisecond
    command = {"id": str(uuid.uuid4()), "type": kind, "tenantId": "acme", "timestampMs": last,
               "payload": {"tenantId": "acme", "serviceCallId": call, **rest}}
    producer.produce("timer.commands", json.dumps(command), key=f"acme.{call}", on_delivery=delivered)
    producer.flush()  # until the broker has it

def after(**time):
    return (datetime.now(timezone.utc) + timedelta(**time)).isoformat()

order = f"order-{uuid.uuid4()}"
send("ScheduleTimer", order, dueAt=after(seconds=1))
send("ScheduleTimer", order + "-paid", dueAt=after(hours=1))
send("CancelTimer", order + "-paid")

consumer = Consumer({**servers, "group.id": "orders-python", "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe(["service.events"])
handled = set()  # of ids: keep them where your work is, in its transaction
while True:
    message = consumer.poll(1)
    if message is None or message.error():
        continue
    event = json.loads(message.value())
    if event.get("type") == "DueTimeReached" and event["tenantId"] == "acme" and event["id"] not in handled:
        print(event["payload"]["serviceCallId"], "is due", flush=True)
        handled.add(event["id"])
    consumer.commit(message, asynchronous=False)

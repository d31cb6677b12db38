import json, os, time, uuid
from datetime import datetime, timedelta, timezone
from confluent_kafka import Consumer, Producer

servers = {"bootstrap.servers": os.environ.get("BROKER", "127.0.0.1:9092")}
now, call = datetime.now(timezone.utc), f"order-{uuid.uuid4()}"
last = 0
def stamp():  # each command is newer than the one before, also within a millisecond
    global last
    last = max(last + 1, time.time_ns() // 1_000_000)
    return last

payload = {"tenantId": "acme", "serviceCallId": call, "dueAt": (now + timedelta(seconds=1)).isoformat()}
command = {"id": str(uuid.uuid4()), "type": "ScheduleTimer", "tenantId": "acme", "timestampMs": stamp(), "payload": payload}
def delivered(error, _):
    if error:
        raise SystemExit(f"the broker does not have it: {error}")

producer = Producer({**servers, "enable.idempotence": True})
producer.produce("timer.commands", json.dumps(command), key=f"acme.{call}", on_delivery=delivered)
producer.flush()

consumer = Consumer({**servers, "group.id": "orders", "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe(["service.events"])
done = False
while not done:  # a program of yours goes on for ever
    message = consumer.poll(1)
    if message is None or message.error():
        continue
    event = json.loads(message.value())
    if event["type"] == "DueTimeReached" and event["tenantId"] == "acme":
        print(event["payload"]["serviceCallId"], "is due")
        done = event["payload"]["serviceCallId"] == call
    consumer.commit(message, asynchronous=False)
consumer.close()

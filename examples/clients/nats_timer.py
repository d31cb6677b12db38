import asyncio, json, os, time, uuid
from datetime import datetime, timedelta, timezone
import nats

last = 0

async def send(js, kind, call, **rest):
    global last
    last = max(last + 1, time.time_ns() // 1_000_000)  # newer than the command before, also within a millisecond
    command = {"id": str(uuid.uuid4()), "type": kind, "tenantId": "acme", "timestampMs": last,
               "payload": {"tenantId": "acme", "serviceCallId": call, **rest}}
    await js.publish("timer.commands", json.dumps(command).encode())  # until the broker has it

def after(**time):
    return (datetime.now(timezone.utc) + timedelta(**time)).isoformat()

async def main():
    js = (await nats.connect(os.environ.get("BROKER", "nats://127.0.0.1:4222"))).jetstream()
    order = f"order-{uuid.uuid4()}"
    await send(js, "ScheduleTimer", order, dueAt=after(seconds=1))
    await send(js, "ScheduleTimer", order + "-paid", dueAt=after(hours=1))
    await send(js, "CancelTimer", order + "-paid")

    events = await js.pull_subscribe("svc.acme.serviceCall", durable="orders-python", stream="svc")
    handled = set()  # of ids: keep them where your work is, in its transaction
    while True:
        try:
            messages = await events.fetch(100, timeout=30)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            event = json.loads(message.data)
            if event.get("type") == "DueTimeReached" and event["id"] not in handled:
                print(event["payload"]["serviceCallId"], "is due", flush=True)
                handled.add(event["id"])
            await message.ack()

asyncio.run(main())

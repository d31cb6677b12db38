#!/usr/bin/env bash
api=${API:-http://localhost:8080}
call=order-$$-$(date +%s)

curl -sf -X PUT -H 'Content-Type: application/json' -d '{"in":"1s"}' "$api/v1/tenants/acme/timers/$call?wait=5s"
until curl -sf "$api/v1/tenants/acme/timers/$call" | grep '"state":"Reached"'; do sleep 0.2; done
echo "$call is due"

#!/usr/bin/env bash
# A copy of the database is put back, as docs/recovery.md says, while 300 commands wait for the
# quota of their tenant: nothing that was acknowledged since may be missing. It runs the built
# program in a folder of its own, on free ports of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-}
dir=$(mktemp -d)
service=
clean() {
  [ -z "$service" ] || kill "$service" 2>/dev/null || true
  rm -rf "$dir"
}
trap clean EXIT
if [ -z "$bin" ]; then
  bin=$dir/timer-service
  go build -o "$bin" ./cmd/timer-service
fi
port=$((20000 + RANDOM % 10000))
cat >"$dir/quotas.yaml" <<'YAML'
tenants: {acme: {live_timers: 1}}
YAML
export TIMER_DB_PATH=$dir/timers.db TIMER_NATS_LISTEN=127.0.0.1:$port TIMER_HTTP_ADDR=127.0.0.1:$((port + 1)) TIMER_QUOTAS_FILE=$dir/quotas.yaml
begin() {
  "$bin" serve >>"$dir/log" 2>&1 &
  service=$!
  for _ in $(seq 300); do
    if "$bin" health >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  cat "$dir/log"
  echo "FAILED: not ready"
  exit 1
}
end() {
  kill "$service"
  wait "$service" || true
  service=
}
# commands TENANT FROM UPTO: schedules timers that are due in months, each a message.
commands() {
  local tenant=$1 n
  for n in $(seq "$2" "$3"); do
    printf '{"id":"%s-%s","type":"ScheduleTimer","tenantId":"%s","timestampMs":%s,"payload":{"tenantId":"%s","serviceCallId":"call-%s","dueAt":"2030-01-01T00:00:00Z"}}\n' \
      "$tenant" "$n" "$tenant" "$(date +%s%3N)" "$tenant" "$n"
  done | "$bin" publish - >/dev/null
}
# count TENANT: how many timers of the tenant are listed.
count() { "$bin" list "$1" --limit 1000 -o json | grep -c '"serviceCallId"' || true; }
begin
commands acme 1 301
commands gamma 1 3
sleep 3
"$bin" backup "$dir/copy.db"
commands beta 1 200
sleep 3
echo "before: acme $(count acme), beta $(count beta), gamma $(count gamma)"
end
rm -f "$dir"/timers.db-wal "$dir"/timers.db-shm
mv "$dir/copy.db" "$dir/timers.db"
: >"$dir/log"
begin
sleep 2
beta=$(count beta)
echo "after: acme $(count acme), beta $beta, gamma $(count gamma)"
grep -iE 'recover|quota|lack' "$dir/log" || true
end
[ "$beta" = 200 ] || { echo "FAILED: $beta of 200 timers of beta are there"; exit 1; }
echo "ok"

#!/usr/bin/env bash
# Two processes on one PostgreSQL database: a program that handles the events of its orders itself,
# and a service that brings events to its broker. The later one is refused, in either order and at
# once, and each order expires once. Then a program with one handler is replaced by one with two.
# It uses schemas of its own on the server of TIMER_TEST_POSTGRES, and free ports of this machine.
#
#	verify/together.sh [timer-service timer-shop]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TIMER_TEST_POSTGRES:?SKIPPED: set it to the URL of a PostgreSQL server}"
dir=$(mktemp -d)
bin=${1:-$dir/timer-service} shop=${2:-$dir/timer-shop}
[ $# -gt 0 ] || { go build -o "$bin" ./cmd/timer-service && go build -o "$shop" ./verify/cmd/timer-shop; }
processes=()
schemas=()
clean() {
  for p in "${processes[@]}"; do kill "$p" 2>/dev/null || true; done
  wait || true
  for s in "${schemas[@]}"; do sql "DROP SCHEMA $s CASCADE" 2>/dev/null; done
  rm -rf "$dir"
}
trap clean EXIT
sql() { psql -qAt "$TIMER_TEST_POSTGRES" -c "$1"; }
failed=0
expect() { # WHAT GOT WANT
  echo "$1: $2"
  [ "$2" = "$3" ] || { echo "  FAILED, want $3"; failed=1; }
}
# begin NAME: a schema, with the variables of a service on it.
begin() {
  echo "== $1"
  schema=together_$$_${#schemas[@]}
  schemas+=("$schema")
  sql "CREATE SCHEMA $schema"
  url="$TIMER_TEST_POSTGRES&search_path=$schema"
  port=$((20000 + RANDOM % 10000))
}
serve() {
  mkdir -p "$dir/$schema"
  (cd "$dir/$schema" && TIMER_DB_URL=$url TIMER_NATS_LISTEN=127.0.0.1:$port TIMER_HTTP_ADDR=127.0.0.1:$((port + 1)) exec "$bin" serve) >"$dir/serve.log" 2>&1 &
  service=$!
  processes+=("$service")
}
# shop LOG SECONDS ARGUMENTS...
shop() {
  "$shop" --db "$url" --for "$2s" "${@:3}" >"$dir/$1" 2>&1 &
  program=$!
  processes+=("$program")
}
ready() { # LOG WORD
  for _ in $(seq 300); do
    if grep -q "$2" "$dir/$1"; then return; fi
    sleep 0.1
  done
  cat "$dir/$1"
  echo "FAILED: not ready"
  exit 1
}
# result PID: whether a process goes on.
result() {
  if kill -0 "$1" 2>/dev/null; then echo "goes on"; else echo "is refused"; fi
}
expired() { sql "SELECT count(*) FILTER (WHERE expired = 1) || ' of ' || count(*) FROM $schema.orders WHERE id LIKE '$1%'"; }
said() { grep -ho 'instances on one database.*' "$dir/$1" | tail -1 || true; }

begin "a service next to a program with handlers"
shop shop.log 20 order-
ready shop.log ready
serve
sleep 15
expect "the service" "$(result "$service")" "is refused"
said serve.log
expect "orders that have expired once" "$(expired order-)" "60 of 60"

begin "a program with handlers next to a service"
serve
ready serve.log 'msg=ready\|ready'
shop shop.log 20 order-
sleep 15
expect "the program" "$(result "$program")" "is refused"
said shop.log
expect "the service" "$(result "$service")" "goes on"
kill "$service"

begin "both at once"
shop shop.log 20 order-
serve
sleep 17
one=$(kill -0 "$service" 2>/dev/null && echo service || true) other=$(kill -0 "$program" 2>/dev/null && echo program || true)
expect "how many go on" "$(echo $one $other | wc -w)" 1
if [ -n "$other" ]; then expect "orders that have expired once" "$(expired order-)" "60 of 60"; fi
kill "$service" 2>/dev/null || true

begin "a rolling deployment from order- to order- and invoice-"
shop old.log 16 order-
ready old.log ready
shop new.log 10 --book invoice- order- invoice-
ready new.log ready
sleep 8
expect "orders that have expired once" "$(expired order-)" "60 of 60"
expect "invoices that have expired once" "$(expired invoice-)" "60 of 60"
expect "red" "$(cat "$dir/old.log" "$dir/new.log" | grep red: || true)" ""
exit "$failed"

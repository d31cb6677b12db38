#!/usr/bin/env bash
# The first day of a stranger: a fresh clone of what is committed, the README's
# commands, and then the mistakes, outages and misunderstandings of the first
# hours, all with the program alone. Every step prints its command, what was
# printed, and "ok" or "FAILED"; the exit code is 1 if one failed. It takes about
# three minutes after the build, and needs Go, git and curl.
set -uo pipefail
cd "$(dirname "$0")/.."

. verify/steps.sh
base=$(free_ports 3)

# serve NAME ARGUMENTS...: starts a service and waits until it is ready.
serve() {
  local name=$1
  shift
  printf '$ timer-service serve %s   # %s\n' "${*//$tmp/…}" "$name"
  launch "$name" ./timer-service serve "$@"
  eventually 60 says "$name" '^ready' || { show "$tmp/$name.log"; die "$name is not ready"; }
}

# finishes GROUP CODE: the process ends by itself, with this exit code.
finishes() { eventually 30 ended "$1" && { wait "$1"; [ $? = "$2" ]; }; }

# stop GROUP: ends a service as a supervisor does.
stop() {
  kill -TERM "$1"
  check "SIGTERM ends the service with exit code 0" finishes "$1" 0
}

# broker PORT: starts the NATS server; its data outlives it.
broker() {
  launch nats "$tmp/nats-server" -a 127.0.0.1 -p "$1" -js -sd "$tmp/jetstream"
  eventually 20 says nats 'Server is ready' || { show "$tmp/nats.log"; die "the NATS server is not ready"; }
}

now() { date +%s%3N; }                           # in milliseconds
after() { date -u -d "$1 seconds" +%FT%T.%3NZ; } # a due time
# message TYPE CALL [DUE]: a command.
message() { printf '{"id":"%s-%s","type":"%s","tenantId":"acme","timestampMs":%s,"payload":{"tenantId":"acme","serviceCallId":"%s"%s}}\n' "$1" "$(now)" "$1" "$(now)" "$2" "${3:+,\"dueAt\":\"$3\"}"; }
# raw PORT BODY: publishes any body to timer.commands of a NATS server, which speaks text.
raw() {
  local answer
  exec {nats_io}<>"/dev/tcp/127.0.0.1/$1" || return 1
  { printf 'CONNECT {"verbose":false}\r\nPUB timer.commands %d\r\n' "$(printf %s "$2" | wc -c)"; printf '%s\r\nPING\r\n' "$2"; } >&"$nats_io"
  while read -r -t 10 -u "$nats_io" answer && [[ $answer != PONG* && $answer != -ERR* ]]; do :; done
  exec {nats_io}>&-
  [[ $answer == PONG* ]]
}
state() { timeout 20 ./timer-service get acme "$1" --db-path "$db" | grep -q "$2"; }

title "A fresh clone, and the build"
git clone -q . "$tmp/clone" && cd "$tmp/clone" || exit 1
run go build ./cmd/timer-service
check "it builds, with nothing printed" [ "$code$(cat "$tmp/out")" = 0 ]
[ -x timer-service ] || exit 1
go build -o "$tmp/nats-server" github.com/nats-io/nats-server/v2 && go build -o "$tmp/timer-events" ./verify/cmd/timer-events || exit 1

title "The README's commands"
readme() { block README.md "ci:$1"; }
printf '$ %s\n' "$(readme serve)"
launch readme bash -c "$(readme serve)"
check "it says ready" eventually 120 says readme '^ready'
show "$tmp/readme.log"
for time in first second; do
  run bash -c "$(readme schedule)"
  check "schedule, the $time time: reached" eval 'exits 0 && prints "^reached .*s late"'
done
kill -INT -- "-$group" # as Ctrl-C does
check "Ctrl-C ends it" eventually 30 ended "$group"

title "An operator's round"
round=(--db-path "$tmp/round.db" --nats-port "$base" --http-addr "127.0.0.1:$((base + 2))")
api=http://127.0.0.1:$((base + 2))
verb() { run ./timer-service "$@" --db-path "$tmp/round.db"; }
serve round "${round[@]}"
service=$group
verb schedule acme order-1 --at 1h --data '{"attempt":3}' --wait
check "scheduled" eval 'exits 0 && prints "^scheduled +acme.order-1 +due "'
verb schedule acme order-2 --in 1h --wait
verb list acme
check "both are listed" eval 'exits 0 && prints order-1 && prints order-2'
verb pause acme --until 1h
check "firing of acme is paused" eval 'exits 0 && prints "firing of acme is paused"'
verb schedule acme order-3 --in 0 --until-fired --timeout 2s
check "a wait says that it is paused" eval 'exits 1 && prints "no answer within 2s; firing of acme, or of all tenants, is paused since"'
verb resume acme
check "resumed" eval 'exits 0 && prints "timers fire"'
check "and it fires" eventually 10 eval './timer-service get acme order-3 --db-path "$tmp/round.db" | grep -q Reached'
verb cancel acme order-2 --wait
check "canceled, and what it was" eval 'exits 0 && prints "^canceled +acme.order-2 .*was due at"'
verb list acme --limit -1
check "a negative limit is refused" eval 'exits 2 && prints "limit must not be negative; 0 is all"'
verb schedule acme far --in 4000d
check "a due time beyond the horizon is refused at once" eval 'exits 2 && prints "beyond the horizon of 87600h"'
run curl -s -X PUT -H 'Content-Type: application/json' -d '{"in":"1h","timestampMs":'"$(now)"'000}' "$api/v1/tenants/acme/timers/order-4"
check "and so are microseconds, over HTTP" prints '"status":422.*it looks like microseconds.*"reason":"bad_time"'
verb dlq list
check "there is no dead letter of either" eval 'exits 0 && prints "no dead letters"'
run ./timer-service health --db-path "$tmp/other.db" --http-addr "127.0.0.1:$((base + 2))"
check "health of another database is not that of this one" eval 'exits 1 && prints "is a timer service with the database .* is not made yet"'
verb doctor "${round[@]:2}"
check "doctor finds nothing bad while it runs" eval 'exits 0 && prints "^ok +http +a timer service answers" && ! prints ^bad'
verb backup -
check "a backup is a file" eval 'exits 2 && prints "name a file"'
verb backup "$tmp/copy.db"
check "a backup while it runs" eval 'exits 0 && prints "^backed up 3 timers \(1 Scheduled, 1 Reached, 0 Expired, 1 Canceled\)"'
stop "$service"
rm "$tmp"/round.db "$tmp"/round.db-* 2>/dev/null
cp "$tmp/copy.db" "$tmp/round.db"
serve restored "${round[@]}"
verb get acme order-1 --data
check "the timer is back, with its data" eval 'exits 0 && prints Scheduled && prints attempt'
verb doctor "${round[@]:2}"
check "doctor finds nothing bad after the restore" eval 'exits 0 && ! prints ^bad'
run env API="$api" bash examples/clients/http.sh
check "a program in a shell schedules over HTTP, and its timer fires" eval 'exits 0 && prints "^order-.* is due"'
stop "$group"

title "An embedder's examples"
run timeout --signal INT 20 go run ./examples/monolith
check "the monolith does what its README shows" eval 'prints "is due +acme.call-.*-1 +correlation request-1" && prints "succeeded +acme.call-.*-2 +200 OK" && ! prints "succeeded +acme.call-.*-3 "'
run go test -count=1 ./examples/recipes ./examples/test ./examples/monolith
check "the recipes and the examples of tests pass" exits 0

title "A key that has fired; one service, its own broker"
db=$tmp/own.db
own=(--db-path "$db" --nats-port "$base")
serve own "${own[@]}"
service=$group
run ./timer-service schedule acme order-1 --in 0 --until-fired "${own[@]}"
check "reached" eval 'exits 0 && prints ^reached'
for verb in "schedule acme order-1 --in 1h" "cancel acme order-1"; do
  began=$(now)
  run ./timer-service $verb --wait "${own[@]}"
  check "it ends at once, and says why ($(($(now) - began)) ms)" eval 'exits 1 && prints "acme.order-1: already reached at" && [ $(($(now) - began)) -lt 10000 ]'
done
kill -HUP "$service"
run ./timer-service schedule acme --in 1s --until-fired "${own[@]}"
check "SIGHUP does not end the service" eval 'exits 0 && prints ^reached'
stop "$service"

title "Kubernetes' variables, and a misspelt one"
TIMER_SERVICE_HOST=10.0.0.1 TIMER_SERVICE_PORT=8080 TIMER_PORT=tcp://10.0.0.1:8080 TIMER_PORT_8080_TCP=tcp://10.0.0.1:8080 \
  TIMER_PORT_8080_TCP_ADDR=10.0.0.1 TIMER_PORT_8080_TCP_PORT=8080 TIMER_PORT_8080_TCP_PROTO=tcp serve kubernetes "${own[@]}"
check "a service named timer disturbs nothing" eval '! grep -E "WARN|ERROR" "$tmp/kubernetes.log"'
stop "$group"
run env TIMER_POLING_INTERVAL=100 ./timer-service serve "${own[@]}"
check "TIMER_POLING_INTERVAL is refused with exit code 2, and the right name" eval 'exits 2 && prints "did you mean TIMER_POLLING_INTERVAL"'

title "Two databases, one broker"
broker $((base + 1))
nats=$group url=nats://127.0.0.1:$((base + 1))
serve first --db-path "$tmp/first.db" --broker-url "$url"
first=$group
run ./timer-service serve --db-path "$tmp/second.db" --broker-url "$url"
check "the second is refused, and both are named" eval 'exits 1 && prints "belongs to sqlite .*/first.db.*this is sqlite .*/second.db" && prints "--takeover"'
began=$(now)
serve second --db-path "$tmp/second.db" --broker-url "$url" --takeover
check "with --takeover the first ends" finishes "$first" 1
printf '  the first ended %d ms after the second was started\n' $(($(now) - began))
tail -n 1 "$tmp/first.log" >"$tmp/out" && show "$tmp/out"
check "and says why" says first 'belongs to sqlite .*/second.db'
stop "$group"

title "Eleven bad commands"
db=$tmp/second.db
client=(--db-path "$db" --broker-url "$url")
serve strict "${client[@]}"
service=$group due=$(after 3600)
long() { head -c "$1" /dev/zero | tr '\0' x; }
good=$(message ScheduleTimer bad "$due")
many=$(message ScheduleTimers x | sed 's/"serviceCallId":"x"/"timers":[{"serviceCallId":"a","dueAt":"'"$due"'"},{"serviceCallId":"b c","dueAt":"'"$due"'"}]/')
bad=( # the reason, and the command
  not_json        '{"id":"bad-1","type":"ScheduleTimer","tenantId":"acme",'
  bad_field       "${good//\"acme\"/\"no/tenant\"}"
  missing_field   "$(message ScheduleTimer bad)"
  bad_time        "$(sed -E 's/("timestampMs":[0-9]+)/\1000/' <<<"$good")"
  unknown_type    "${good/\"ScheduleTimer\"/\"ScheduleTimr\"}"
  tenant_mismatch "${good/\"payload\":\{\"tenantId\":\"acme\"/\"payload\":\{\"tenantId\":\"other\"}"
  duplicate_key   "${good/\{/\{\"tenantId\":\"acme\",}"
  too_large       "${good/\{/\{\"more\":\"$(long 70000)\",}"
  bad_field       "$many"
  too_large       "${good/\"dueAt\"/\"data\":\"$(long 5000)\",\"dueAt\"}"
  bad_time        "${good/.[0-9][0-9][0-9]Z/,500Z}"
)
for ((i = 0; i < ${#bad[@]}; i += 2)); do
  printf '$ nats pub timer.commands %.150s   # %s\n' "${bad[i + 1]}" "${bad[i]}"
  raw $((base + 1)) "${bad[i + 1]}" || check "published" false
done
# listed COUNT: as many dead letters are there.
listed() { [ "$(./timer-service dlq list "${client[@]}" -o json | wc -l)" = "$1" ]; }
check "eleven dead letters" eventually 20 listed 11
run ./timer-service dlq list "${client[@]}"
for ((i = 0; i < ${#bad[@]}; i += 2)); do printf '%s\n' "${bad[i]}"; done | sort >"$tmp/want"
./timer-service dlq list "${client[@]}" -o json | grep -o '"reason":"[a-z_]*"' | cut -d'"' -f4 | sort >"$tmp/got"
check "each with its reason" diff "$tmp/want" "$tmp/got"
for reason in $(uniq "$tmp/want"); do
  check "the log warns of $reason" says strict "level=WARN msg=\"messages refused\".*reason=$reason"
done
grep -m 2 WARN "$tmp/strict.log" >"$tmp/out" && show "$tmp/out"
run ./timer-service schedule acme --in 1s --until-fired "${client[@]}"
check "a good command works" eval 'exits 0 && prints ^reached'

title "The broker is away for ten seconds"
launch tail "$tmp/timer-events" -url "$url"
eventually 20 says tail 'listening' || die "tail does not listen"
due=$(after 8)
for ((i = 1; i <= 40; i++)); do message ScheduleTimer "outage-$i" "$due"; done | ./timer-service publish - "${client[@]}"
check "40 timers are scheduled" eventually 10 state outage-40 Scheduled
message CancelTimer outage-1 | ./timer-service publish - "${client[@]}"
check "one is canceled before" eventually 10 state outage-1 Canceled
printf '$ kill -KILL nats-server\n'
kill -KILL "$nats" && wait "$nats" 2>/dev/null
gone=$(now)
run ./timer-service schedule acme --in 1s "${client[@]}"
check "a client says that there is no broker" eval 'exits 1 && prints "the broker did not answer"'
# Clients reach the broker before the service does: on another port.
broker $((base + 2)) && nats=$group
message CancelTimer outage-2 | "$tmp/timer-events" -url "nats://127.0.0.1:$((base + 2))" -publish timer.commands # until it is stored
kill -KILL "$nats" && wait "$nats" 2>/dev/null
while [ "$(now)" -lt $((gone + 10000)) ]; do sleep 0.1; done
check "what was due meanwhile waits" state outage-40 Scheduled
broker $((base + 1)) && nats=$group back=$(now)
# published: the last timer has fired, and no event waits for the broker. (The tail
# misses what is published before it is connected again.)
published() { state outage-40 Reached && ./timer-service stats --db-path "$db" -o json | grep -q '"outbox":0[,}]'; }
check "the other 38 fire when it is back, and their events leave" eventually 60 published
all() { for ((i = 3; i <= 40; i++)); do state "outage-$i" Reached || return 1; done; }
check "all of them" all
run ./timer-service get acme outage-3 --db-path "$db" -o json
reached=$(date -d "$(grep -o '"reachedAt":"[^"]*"' "$tmp/out" | cut -d'"' -f4)" +%s%3N)
printf '  the broker was away for %d ms, and the first timer fired %d ms after its return\n' $((back - gone)) $((reached - back))
check "none of a canceled timer" eval '! grep -E "acme.outage-[12] " "$tmp/tail.log"'
check "both are canceled" eval 'state outage-1 Canceled && state outage-2 Canceled'

title "A hundred timers are canceled while the service is down"
due=$(after 8)
for ((i = 1; i <= 101; i++)); do message ScheduleTimer "down-$i" "$due"; done >"$tmp/down.jsonl"
run ./timer-service publish "$tmp/down.jsonl" "${client[@]}"
check "101 timers are scheduled" eventually 10 state down-101 Scheduled
stop "$service"
for ((i = 1; i <= 100; i++)); do raw $((base + 1)) "$(message CancelTimer "down-$i")" || check "published" false; done
while [ "$(now)" -lt "$(date -d "$due" +%s%3N)" ]; do sleep 0.1; done
serve again "${client[@]}"
check "the one that was not canceled fires" eventually 20 state down-101 Reached
fired() { for ((i = 1; i <= 100; i++)); do state "down-$i" Canceled || return 1; done; }
check "the hundred do not" fired
check "there is no event of one" eval '! grep -E "acme.down-([0-9]|[1-9][0-9]|100) " "$tmp/tail.log"'
stop "$group"

title "Mistakes"
run ./timer-service schedule acme order-1 --inn 3s
check "a wrong flag" eval 'exits 2 && prints "unknown flag --inn"'
run ./timer-service serve --broker-url 127.0.0.1:4222
check "a broker without a scheme" eval 'exits 2 && prints "nats://"'
mkdir -m 500 "$tmp/locked"
user=()
if [ "$(id -u)" = 0 ]; then # whom no permission stops
  user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  chmod a+x "$tmp" "$tmp/clone"
  chown 65534 "$tmp/locked"
fi
run "${user[@]}" ./timer-service serve --db-path "$tmp/locked/timers.db" --nats-port "$base"
check "a folder that one may not write to" eval 'exits 1 && prints "permission denied"'

title "$([ "$failed" = 0 ] && echo "ok, all of it" || echo FAILED)"
exit "$failed"

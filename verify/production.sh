#!/usr/bin/env bash
# A day in production: runs the commands of docs/production.md, in their order, on one
# machine that stands for all, and checks what they did. Names of hosts become ports of
# this machine, systemctl starts processes as the units would. It needs root, since it
# installs the package and removes it again, PostgreSQL, Prometheus, openssl and curl.
#
#   verify/production.sh OLD.deb NEW.deb
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

[ $# = 2 ] || { echo "usage: $0 OLD.deb NEW.deb" >&2; exit 2; }
old=$(realpath "$1") new=$(realpath "$2") page=$PWD/docs/production.md
. verify/steps.sh
pgbin=$(dirname "$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -1)")
for tool in "$pgbin/initdb" prometheus promtool openssl curl dpkg; do
  command -v "$tool" >/dev/null || die "$tool is not here"
done
[ "$(id -u)" = 0 ] || die "not root"
[ ! -e /etc/timer-service ] || die "timer-service is installed here already"
trap 'clean; dpkg --purge timer-service >/dev/null 2>&1' EXIT

base=$(free_ports 6) # NATS, PostgreSQL, Prometheus, three instances
go build -o "$tmp/nats-server" github.com/nats-io/nats-server/v2 && go build -o "$tmp/timer-events" ./verify/cmd/timer-events || exit 1
mkdir -p "$tmp"/{nats/jetstream,prometheus,ops}
cp "$old" "$tmp/ops/timer-service.deb" && cp "$new" "$tmp/ops/timer-service-new.deb"
chmod a+x "$tmp"

# commands NAME: the commands of a step, with the names of this machine.
commands() {
  block "$page" "run:$1" |
    sed -e "s|nats.example:4222|localhost:$base|g; s|^port: 4222|port: $base|; s|db.example:5432|localhost:$((base + 1))|g" \
      -e "s|timer-1.example:8080|localhost:$((base + 3))|g; s|timer-2.example:8080|localhost:$((base + 4))|g; s|timer-3.example:8080|localhost:$((base + 5))|g" \
      -e 's|DNS:$name|DNS:localhost|' -e "s|/etc/nats|$tmp/nats|g; s|/var/lib/nats|$tmp/nats/jetstream|g; s|/etc/prometheus|$tmp/prometheus|g"
}

# step NAME: shows and runs the commands of a step, on the machine of $instance. It fails if
# one of them fails.
step() {
  local text
  text=$(commands "$1")
  [ -n "$text" ] || die "docs/production.md has no step $1"
  sed 's/^/$ /' <<<"$text" | cut -c1-170
  code=0
  trap 'code=1' ERR
  eval "$text" >"$tmp/out" 2>&1 </dev/null
  trap - ERR
  show "$tmp/out"
  check "step $1" exits 0
}

# The machines.
declare -A unit # process groups by name
instance=1
sudo() { PGHOST=$tmp/postgres PGPORT=$((base + 1)) PGUSER=postgres "$pgbin/$3" "${@:4}"; } # -u postgres COMMAND...
apt-get() { dpkg --install "${@: -1}"; }
systemctl() { # VERB [--now] UNIT
  local name=${*: -1} log
  if [ "$name" = timer-service ]; then name=timer-$instance; fi
  case $1 in stop | restart)
    if [ -n "${unit[$name]:-}" ]; then
      kill -TERM -- "-${unit[$name]}"
      eventually 40 ended "${unit[$name]}" || return 1
      unset "unit[$name]"
    fi ;;
  esac
  if [ "$1" = stop ]; then return 0; fi
  log=$tmp/$name.log
  case $name in
    nats-server) launch "$name" "$tmp/nats-server" -c "$tmp/nats/nats-server.conf" ;;
    prometheus) launch "$name" prometheus --config.file="$tmp/prometheus/prometheus.yml" --storage.tsdb.path="$tmp/prometheus/data" --web.listen-address="127.0.0.1:$((base + 2))" ;;
    timer-*) # an instance: its address is what differs on one machine
      launch "$name" env -C /var/lib/timer-service TIMER_HTTP_ADDR="127.0.0.1:$((base + 2 + instance))" \
        setpriv --reuid timer-service --regid timer-service --clear-groups \
        /usr/bin/timer-service serve --config /etc/timer-service/timer-service.yaml ;;
    *) return 1 ;;
  esac
  unit[$name]=$group
  case $name in
    timer-*) eventually 90 grep -Eq '^ready|msg=ready|"ready"' "$log" || { cat "$log" >&2; return 1; } ;;
    nats-server) eventually 20 says nats-server 'Server is ready' ;;
    prometheus) eventually 20 curl -fsS "127.0.0.1:$((base + 2))/-/ready" ;;
  esac
}
timer-service() { TIMER_HTTP_ADDR=127.0.0.1:$((base + 2 + instance)) "$(type -P timer-service)" "$@"; }
# each COMMAND...: on every machine that has an instance.
each() { for instance in ${instances:-1 2}; do "$@"; done; instance=1; }
query() { sudo -u postgres psql -Atc "SET search_path = timers; $1" timers | tail -n 1; }
# ops COMMAND...: with the token of all tenants.
ops() { SSL_CERT_FILE=$tmp/ops/ca.crt TIMER_HTTP_TOKEN=change-me-http-token "$(type -P timer-service)" "$@" --server "https://localhost:$((base + 3))"; }

# message CALL DUE: a command.
message() {
  printf '{"id":"%s","type":"ScheduleTimer","tenantId":"acme","timestampMs":%s,"payload":{"tenantId":"acme","serviceCallId":"%s","dueAt":"%s"}}\n' \
    "$1" "$(date +%s%3N)" "$1" "$2"
}
# timers NAME COUNT SECONDS: schedules timers that are due then; unfired NAME: how many have not fired.
timers() {
  local due
  due=$(date -u -d "$3 seconds" +%FT%T.%3NZ)
  for ((i = 1; i <= $2; i++)); do message "$1-$i" "$due"; done | ops publish - >"$tmp/out" 2>&1
  check "$2 timers are scheduled" [ $? = 0 ]
}
stored() { [ "$(query "SELECT count(*) FROM timer_schedules WHERE service_call_id LIKE '$1-%'")" = "$2" ]; }
fired() { [ "$(query "SELECT count(*) FROM timer_schedules WHERE service_call_id LIKE '$1-%' AND state = 'Reached'")" = "$2" ] && [ "$(query 'SELECT count(*) FROM timer_outbox')" = 0 ]; }
# events: those that the consumer has had, a line each.
events() { grep -o 'acme\.[a-z]*-[0-9]*' "$tmp/tail.log"; }
firing() { curl -fsS "127.0.0.1:$((base + 2))/api/v1/alerts" | grep -Eq "\"alertname\":\"$1\".*\"state\":\"firing\""; }

title "Certificates, database, broker"
cd "$tmp/ops" || exit 1
step certificates
cp ./*.crt ./*.key "$tmp/nats/"
mkdir "$tmp/postgres"
cp db.example.crt db.example.key "$tmp/postgres/"
chown -R nobody "$tmp/postgres" && chmod 600 "$tmp/postgres/db.example.key"
as_nobody=(setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups)
"${as_nobody[@]}" "$pgbin/initdb" -D "$tmp/postgres/data" -U postgres -A trust >"$tmp/out" 2>&1 || die "initdb: $(tail -1 "$tmp/out")"
printf '%s\n' 'local all postgres trust' 'hostssl timers timers,timers_owner all scram-sha-256' >"$tmp/postgres/data/pg_hba.conf"
launch postgres "${as_nobody[@]}" "$pgbin/postgres" -D "$tmp/postgres/data" -p $((base + 1)) -k "$tmp/postgres" -c listen_addresses=127.0.0.1 \
  -c ssl=on -c ssl_cert_file="$tmp/postgres/db.example.crt" -c ssl_key_file="$tmp/postgres/db.example.key"
eventually 60 sudo -u postgres psql -c 'SELECT 1' || die "PostgreSQL does not answer"
step roles
cp "$(dirname "$page")/brokers/accounts.conf" "$tmp/nats/"
step nats

title "Install, provision, start two instances"
step install
check "the configuration is for root and the service alone" [ "$(stat -c %a /etc/timer-service)" -le 750 ]
chgrp timer-service /etc/timer-service/timer-service.yaml && chmod 640 /etc/timer-service/timer-service.yaml
step provision
each step start
doctor() { # grep -q would end before it, and so end it
  "$@" "$(type -P timer-service)" doctor --config /etc/timer-service/timer-service.yaml >"$tmp/out" 2>&1 && prints '^ok *files' || { show "$tmp/out" >&2 && false; }
}
check "the doctor finds the files of this page good, as root" doctor env
check "and as the user of the service" doctor setpriv --reuid timer-service --regid timer-service --clear-groups
query "SELECT usename, ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'timers' LIMIT 1" >"$tmp/out"
show "$tmp/out"
check "the service speaks TLS with the database, as a role that owns nothing" prints '^timers.t.TLSv1.3'

title "The first timer"
step client
check "it fires" prints 'DueTimeReached  acme  order-1'
as_acme=(-url "tls://localhost:$base" -user acme -password change-me-acme -ca "$tmp/ops/ca.crt" -inbox _INBOX_acme)
launch tail "$tmp/timer-events" "${as_acme[@]}" -subject svc.acme.serviceCall
check "a consumer listens" eventually 20 says tail listening

title "Prometheus, dashboards, and an alert that fires"
cp "$(dirname "$page")/alerts/rules.yml" ca.crt "$tmp/prometheus/"
step prometheus
run curl --cacert ca.crt -fsS -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer change-me-http-token' "https://localhost:$((base + 3))/"
check "the dashboard answers with the token" prints '^200'
run curl --cacert ca.crt -sS -o /dev/null -w '%{http_code}\n' "https://localhost:$((base + 3))/metrics"
check "and nothing without it" prints '^401'
run curl --cacert ca.crt -sS -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer change-me-prometheus' "https://localhost:$((base + 3))/v1/stats"
check "nor anything but metrics with the token of Prometheus" prints '^403'
scraped() { [ "$(curl -fsS "127.0.0.1:$((base + 2))/api/v1/query?query=sum(up)" | grep -o '"[0-9]*"\]')" = '"2"]' ]; }
check "both instances are scraped" eventually 30 scraped
timers outage 50 20
check "50 timers wait" eventually 20 stored outage 50
step outage
stopped=$SECONDS
check "TimerBrokerDown fires" eventually 120 firing TimerBrokerDown
printf '  after %d s\n' $((SECONDS - stopped))
check "no timer fired while the broker was away" eval '! fired outage 1'
step repair
check "all 50 fire when it is back" eventually 60 fired outage 50
check "the alert ends" eventually 60 eval '! firing TimerBrokerDown'

title "Lose the database, restore yesterday's copy"
timers kept 50 25
check "50 timers wait" eventually 20 stored kept 50
step backup
timers later 50 25
check "50 more after the copy" eventually 20 stored later 50
each systemctl stop timer-service
step restore
check "the copy does not have the later ones" eval 'stored later 0'
check "the restored database is not open to every role" [ "$(query "SELECT has_database_privilege('public', 'timers', 'CONNECT')")" = f ]
each systemctl restart timer-service
check "the log says that it recovers" grep -q -i recover "$tmp/timer-1.log" "$tmp/timer-2.log"
check "the 50 of the copy fire" eventually 60 fired kept 50
check "and those after it" eventually 60 fired later 50

# load NAME: schedules ten timers a second, due 3 s later, until the file "loaded" is there.
load() {
  local n=0
  until [ -e "$tmp/loaded" ]; do
    due=$(date -u -d '3 seconds' +%FT%T.%3NZ)
    for _ in {1..10}; do
      n=$((n + 1))
      message "$1-$n" "$due"
    done
    echo $n >"$tmp/load-count"
    sleep 1
  done
}
# The producer speaks with the broker, since the instances stop one after the other.
begin_load() {
  rm -f "$tmp/loaded"
  load "$1" | "$tmp/timer-events" -publish timer.commands "${as_acme[@]}" >"$tmp/load.log" 2>&1 &
  loader=$!
}
end_load() {
  touch "$tmp/loaded"
  wait "$loader"
  check "all commands were taken by the broker" [ $? = 0 ]
  count=$(cat "$tmp/load-count")
  check "all $count timers fire" eventually 30 fired "$1" "$count"
  once() { [ "$(events | grep -c "acme.$1-")" = "$count" ] && [ -z "$(events | grep "acme.$1-" | sort | uniq -d)" ]; }
  check "each once, at the consumer" eventually 10 once "$1"
}

title "Upgrade under load, one instance after the other"
cp /etc/timer-service/timer-service.yaml "$tmp/before.yaml"
begin_load upgrade
step unpack
each step upgrade
end_load upgrade
check "the configuration was kept" cmp "$tmp/before.yaml" /etc/timer-service/timer-service.yaml
run timer-service version
check "the new version runs" prints "$(dpkg-deb -f "$new" Version | cut -d- -f1)"

title "A third instance, under load"
begin_load third
instance=3
step start
instance=1 instances="1 2 3"
run curl --cacert ca.crt -fsS -H 'Authorization: Bearer change-me-http-token' "https://localhost:$((base + 3))/v1/nodes"
check "they are of the new version" prints "\"version\":\"v$(dpkg-deb -f "$new" Version | cut -d- -f1)\""
check "there are three" [ "$(grep -o '"started' "$tmp/out" | wc -l)" = 3 ]
end_load third

title "Stop, and remove the package"
each systemctl stop timer-service
for log in "$tmp"/timer-?.log; do
  check "$(basename "$log") has no error but those of the outage" eval '! grep -h "level=ERROR" "$log" | grep -v -i -e broker -e nats -e connect'
done
dpkg --remove timer-service >"$tmp/out" 2>&1
check "the configuration stays" [ -e /etc/timer-service/timer-service.yaml ]

title "$([ "$failed" = 0 ] && echo "ok, all of it" || echo FAILED)"
exit "$failed"

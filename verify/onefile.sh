#!/usr/bin/env bash
# Two programs at one SQLite file: an embedded one (examples/monolith) runs its timers there, and
# a service, or a second one of its kind, is started on the same file, by its path, by a symbolic
# link and by a hard link. Each must be refused by name, and the first one must go on.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
first=
clean() {
  [ -z "$first" ] || kill "$first" 2>/dev/null || true
  rm -rf "$dir"
}
trap clean EXIT
go build -o "$dir" ./cmd/timer-service ./examples/monolith
port=$((20000 + RANDOM % 10000))
mkdir "$dir/elsewhere"
"$dir/monolith" -db "$dir/shop.db" -addr "127.0.0.1:$port" >"$dir/log" 2>&1 &
first=$!
for _ in $(seq 300); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
  sleep 0.1
done
failed=0
# refused WHAT PATTERN COMMAND...: the command must end within ten seconds, and say why.
refused() {
  local code=0
  timeout 10 "${@:3}" >"$dir/second" 2>&1 || code=$?
  echo "$1: exit code $code, $(tail -1 "$dir/second" | sed "s|$dir/||g")"
  if [ $code = 0 ] || [ $code = 124 ] || ! grep -q "$2" "$dir/second"; then failed=1; fi
}
serve() { refused "$1" "$2" env TIMER_DB_PATH="$3" TIMER_BROKER=gochannel TIMER_HTTP_ADDR= "$dir/timer-service" serve; }
serve "a service" "is in use (pid $first" "$dir/shop.db"
refused "a second program" "is in use (pid $first" "$dir/monolith" -db "$dir/shop.db" -addr "127.0.0.1:$((port + 1))"
ln -s "$dir/shop.db" "$dir/elsewhere/link.db"
serve "a service, by a symbolic link" "is in use (pid $first" "$dir/elsewhere/link.db"
ln "$dir/shop.db" "$dir/elsewhere/second.db"
serve "a service, by a hard link" "hard links" "$dir/elsewhere/second.db"
rm "$dir/elsewhere/second.db"
rm -f "$dir/shop.db.lock"
for _ in $(seq 100); do
  if grep -q "lock file of the database was removed" "$dir/log"; then break; fi
  sleep 0.1
done
serve "a service, after the lock file was removed" "is in use (pid $first" "$dir/shop.db"
kill -0 "$first" || failed=1
[ $failed = 0 ] || { cat "$dir/log"; echo FAILED; exit 1; }
echo "ok: whoever came second was refused"

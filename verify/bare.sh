#!/usr/bin/env bash
# Runs the README's two commands in a fresh clone on a machine that has Go and Git and nothing
# else: a copy of this machine's files without compilers, servers, browsers and other languages,
# and without a network, which is thrown away. Modules come from this machine's cache. It says
# which tests are skipped there. Needs root on Linux. bare.sh [OUTPUT OF go test -json].
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${BARE_TMP:-}" ]; then
  go list -test -deps ./... >/dev/null # what is not in the cache comes over the network
  BARE_TMP=$(mktemp -d)
  export BARE_TMP
  code=0
  # Namespaces of its own: mounts, processes and the loopback end with it.
  unshare --mount --pid --net --fork --kill-child "$0" "$@" || code=$?
  rm -rf "$BARE_TMP"
  exit "$code"
fi
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

git clone -q . "$BARE_TMP/clone"
cache=$(go env GOMODCACHE) go=$(go env GOROOT)
ip link set lo up
mkdir "$BARE_TMP/o" && mount -t tmpfs -o size=16g none "$BARE_TMP/o"
mkdir "$BARE_TMP"/o/{upper,work,root}
root=$BARE_TMP/o/root
mount -t overlay -o "lowerdir=/,upperdir=$BARE_TMP/o/upper,workdir=$BARE_TMP/o/work" none "$root"
# Of the programs stay those of the base system, Git and what runs a script.
keep='^(bash|sh|dash|git.*|env|ls|cat|cp|mv|rm|mkdir|rmdir|mktemp|chmod|touch|grep|egrep|sed|awk|mawk|date|sleep|timeout|kill|head|tail|wc|sort|uniq|tee|tr|cut|id|uname|hostname|true|false|test|printf|echo|readlink|realpath|dirname|basename|find|xargs|seq|stat|ps|df|du|tar|gzip|mount|umount|ip)$'
for folder in /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin; do
  for program in "$folder"/*; do
    [[ ${program##*/} =~ $keep ]] || rm -rf "$root$program"
  done
done
rm -rf "$root"/usr/lib/{postgresql,rabbitmq,chromium,gcc,jvm,erlang,python3} "$root"/usr/share/java "$root$HOME"/.[!.]*
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/run"
mv "$BARE_TMP/clone" "$root/srv/clone"

inside() {
  chroot "$root" /usr/bin/env -i HOME="$HOME" TERM=dumb LANG=C PATH="$go/bin:/usr/bin:/bin" \
    GOMODCACHE="$cache" GOPROXY=off GOTOOLCHAIN=local bash -euo pipefail -c "cd /srv/clone; $1"
}
inside 'for program in gcc cc psql nats-server rabbitmq-server chromium node python3 java; do ! command -v $program || exit 1; done; go version; git --version' ||
  die "something is still there"
inside "set -m; go run ./cmd/timer-service serve >/tmp/serve.log 2>&1 & service=\$!
  for _ in \$(seq 3000); do ! grep -qi ready /tmp/serve.log || break; kill -0 \$service || { cat /tmp/serve.log; exit 1; }; sleep 0.1; done
  go run ./cmd/timer-service schedule acme --in 3s --until-fired; kill -INT -- -\$service; wait \$service || true"
SECONDS=0
inside 'go test -json ./...' >"$BARE_TMP/o/tests.json" || {
  grep -h '"Action":"fail"' "$BARE_TMP/o/tests.json" | head -20
  die "the README's tests"
}
[ -z "${1:-}" ] || cp "$BARE_TMP/o/tests.json" "$1"
echo "go test ./...: passed in $SECONDS s, with the build; skipped:"
sed -n 's/.*"Output":"[^"]*\(SKIPPED: .*\)\\n"}/\1/p' "$BARE_TMP/o/tests.json" | sort | uniq -c | sort -rn

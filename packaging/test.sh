#!/usr/bin/env bash
# Installs, starts, upgrades, removes and purges the package for Debian, and runs the
# image as its user with a read-only root, all on a copy of this machine's files that is
# thrown away. Needs root on Debian. test.sh [FOLDER OF A RELEASE]; without one it builds one.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PACKAGING_TEST_TMP:-}" ]; then
  PACKAGING_TEST_TMP=$(mktemp -d)
  export PACKAGING_TEST_TMP
  # Namespaces of its own: mounts and processes end with it.
  code=0
  unshare --mount --pid --fork --kill-child "$0" "$@" || code=$?
  rm -rf "$PACKAGING_TEST_TMP"
  exit "$code"
fi
tmp=$PACKAGING_TEST_TMP
say() { printf '\n-- %s\n' "$*"; }
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
is() { [ "$1" = "$2" ] || die "$3: got $1, want $2"; }

chmod 755 "$tmp"
if [ -n "${1:-}" ]; then old=$(realpath "$1"); else
  old=$tmp/old
  VERSION=${OLD_VERSION:-v0.0.1} packaging/release.sh "$old" linux/amd64
fi
VERSION=v999.0.0 packaging/release.sh "$tmp/new" linux/amd64
(cd "$old" && sha256sum --quiet -c SHA256SUMS)

say "unit"
unit=packaging/systemd/timer-service.service
systemd-analyze security --offline=true --no-pager --threshold=20 "$unit" | tail -1

mkdir "$tmp/o" && mount -t tmpfs none "$tmp/o"
mkdir "$tmp"/o/{upper,work,root}
root=$tmp/o/root
mount -t overlay -o "lowerdir=/,upperdir=$tmp/o/upper,workdir=$tmp/o/work" none "$root"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/run"
mkdir "$root/packages"
cp "$old"/*_amd64.deb "$root/packages/old.deb"
cp "$tmp"/new/*_amd64.deb "$root/packages/new.deb"
# With EXEC=exec the process that runs in the background is the program, which signals reach.
in_root() { ${EXEC:-} chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
config=/etc/timer-service/timer-service.yaml
data=/var/lib/timer-service
service=
# start: what the unit does, as its user, in its folder.
start() {
  EXEC=exec in_root setpriv --reuid timer-service --regid timer-service --clear-groups \
    sh -c "umask 077; cd $data; exec timer-service serve --config $config" >"$tmp/serve.log" 2>&1 &
  service=$!
  for _ in $(seq 300); do
    if as_user timer-service --config "$config" health >"$tmp/health.log" 2>&1; then return; fi
    kill -0 "$service" || break
    sleep 0.1
  done
  cat "$tmp/serve.log" "$tmp/health.log"
  die "the service is not ready"
}
stop() { kill "$service" && wait "$service" || die "the service did not stop cleanly"; }
as_user() { in_root setpriv --reuid timer-service --regid timer-service --clear-groups "$@"; }
fires() { as_user timer-service --config "$config" schedule acme "$1" --in 100ms --until-fired | tee "$tmp/fired.log"; grep -q reached "$tmp/fired.log"; }
mode() { in_root stat -c '%a %U %G' "$1"; }

say "install"
in_root dpkg -P timer-service # what this machine may have
if in_root id timer-service >/dev/null 2>&1; then in_root userdel timer-service; fi
in_root dpkg -i /packages/old.deb
is "$(mode $data)" "700 timer-service timer-service" "$data"
is "$(mode /etc/timer-service)" "750 root timer-service" /etc/timer-service
is "$(mode $config)" "640 root timer-service" "$config"
in_root systemd-analyze verify --man=no /usr/lib/systemd/system/timer-service.service
in_root test -s /usr/share/bash-completion/completions/timer-service
in_root timer-service version

say "start, fire a timer"
sed -i 's/^#broker_url.*/http_addr: 127.0.0.1:18089\nnats_port: 14229/' "$root$config"
before=$(in_root sha256sum "$config")
start
fires before
say "upgrade"
stop
in_root dpkg -i /packages/new.deb
in_root timer-service version | grep -F v999.0.0
is "$(in_root sha256sum "$config")" "$before" "the edited configuration after the upgrade"
is "$(mode $config)" "640 root timer-service" "$config after the upgrade"
start
as_user timer-service --config "$config" get acme before
fires after
stop

say "upgrade by rpm, as far as it differs"
in_root chgrp root /etc/timer-service "$config" # which rpm does
in_root sh -s 2 <packaging/scripts/postinstall.sh
is "$(mode /etc/timer-service)" "750 root timer-service" "/etc/timer-service after an upgrade by rpm"
is "$(mode $config)" "640 root timer-service" "$config after an upgrade by rpm"

say "remove"
in_root dpkg -r timer-service
in_root test ! -e /usr/bin/timer-service || die "the binary is left"
in_root test -s "$data/event_service.db" || die "the data is gone"
is "$(in_root sha256sum "$config")" "$before" "the configuration after the removal"
say "purge"
in_root dpkg -P timer-service
in_root test ! -e "$data" || die "the data is left"
in_root test ! -e /etc/timer-service || die "the configuration is left"

say "image: read-only root, user 65532"
mkdir "$tmp/layout" "$tmp/image"
tar -C "$tmp/layout" -xf "$old"/*_image.tar
blob() { echo "$tmp/layout/blobs/${1/://}"; }
digest() { python3 -c "import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))" "$@"; }
manifest=$(blob "$(digest "$tmp/layout/index.json" "d['manifests'][0]['digest']")")
settings=$(blob "$(digest "$manifest" "d['config']['digest']")")
tar -C "$tmp/image" -xzf "$(blob "$(digest "$manifest" "d['layers'][0]['digest']")")"
is "$(digest "$settings" "d['config']['User']")" 65532:65532 "the user of the image"
is "$(digest "$settings" "' '.join(d['config']['Entrypoint']+d['config']['Cmd'])")" "timer-service serve" "the entry point of the image"
mount --bind "$tmp/image" "$tmp/image"
mkdir "$tmp/data" && chmod 777 "$tmp/data" # as bind mounts often are
mount --bind "$tmp/data" "$tmp/image/data"
mount -o remount,bind,ro "$tmp/image"
mapfile -t environ < <(digest "$settings" "'\n'.join(d['config']['Env'])")
in_image() {
  ${EXEC:-} env -i "${environ[@]}" TIMER_HTTP_ADDR=127.0.0.1:18090 TIMER_NATS_PORT=14230 \
    /usr/sbin/chroot --userspec=65532:65532 --groups=65532 "$tmp/image" "$@"
}
EXEC=exec in_image timer-service serve >"$tmp/image.log" 2>&1 &
service=$!
for _ in $(seq 300); do
  if in_image timer-service health >"$tmp/health.log" 2>&1; then break; fi
  kill -0 "$service" || break
  sleep 0.1
done
in_image timer-service health || { cat "$tmp/image.log"; die "the image is not ready"; }
in_image timer-service schedule acme image --in 100ms --until-fired | tee "$tmp/fired.log"
grep -q reached "$tmp/fired.log"
if touch "$tmp/image/written" 2>/dev/null; then die "the root is writable"; fi
stop
say "all is well ($SECONDS s)"

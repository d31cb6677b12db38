# What the rehearsals share: titles, commands that are shown, and checks that count. The
# caller has made $tmp and set groups=() and failed=0.

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_ports COUNT: prints the first of as many ports that are free.
free_ports() {
  local base=0 port free=
  until [ -n "$free" ]; do
    base=$((21000 + RANDOM % 9000)) free=yes
    for ((port = base; port < base + $1; port++)); do if answers "$port"; then free=; fi; done
  done
  echo "$base"
}

# finish: ends what was begun, and removes $tmp.
finish() {
  for g in "${groups[@]}"; do { kill -KILL -- "-$g" && wait "$g"; } 2>/dev/null; done
  chmod -R u+w "$tmp" && rm -rf "$tmp"
}

title() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }
die() { printf 'FAILED  %s\n' "$*"; exit 1; }

# check WHAT COMMAND...: whether the command succeeds.
check() {
  local what=$1
  shift
  if "$@" >/dev/null; then printf '  ok      %s\n' "$what"; else printf '  FAILED  %s\n' "$what"; failed=1; fi
}

# show FILE: some lines of it, not too wide.
show() { head -n 14 "$1" | cut -c1-230 | sed 's/^/  | /'; }

# run COMMAND...: shows and runs it; its output is in $tmp/out, its exit code in $code.
run() {
  printf '$ %s\n' "${*/#$tmp/…}" | cut -c1-230
  timeout 300 "$@" >"$tmp/out" 2>&1
  code=$?
  show "$tmp/out"
}
exits() { [ "$code" = "$1" ]; }
prints() { grep -Eq -- "$1" "$tmp/out"; }

# eventually SECONDS COMMAND...: waits until the command succeeds.
eventually() {
  local limit=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$limit" ]; then return 1; fi
    sleep 0.05
  done
}

# begin NAME COMMAND...: starts a process group; its log is NAME.log, its id $group.
begin() {
  local log=$tmp/$1.log
  rm -f "$log" # of a process before, which may have said what this one is to say
  shift
  set -m
  "$@" >"$log" 2>&1 &
  group=$!
  set +m
  groups+=("$group")
}
says() { grep -Eq -- "$2" "$tmp/$1.log"; }
ended() { ! kill -0 "$1" 2>/dev/null; }

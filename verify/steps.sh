# What the rehearsals share, in addition to .ci/lib.sh: titles, commands that are shown, and checks
# that count in $failed. Sourced at the root of the repository.
. .ci/lib.sh
set +e # a check that fails is counted, and the next ones still run
failed=0
for name in "${!TIMER_@}"; do unset "$name"; done # settings of tests do not apply either

# free_ports COUNT: prints the first of as many ports that are free.
free_ports() {
  local base=0 port free=
  until [ -n "$free" ]; do
    base=$((21000 + RANDOM % 9000)) free=yes
    for ((port = base; port < base + $1; port++)); do if answers 127.0.0.1 "$port"; then free=; fi; done
  done
  echo "$base"
}

title() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

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

# launch NAME COMMAND...: begins a process, whose log is NAME.log.
launch() {
  rm -f "$tmp/$1.log" # of a process before, which may have said what this one is to say
  begin "$tmp/$1.log" "${@:2}"
}
says() { grep -Eq -- "$2" "$tmp/$1.log"; }
ended() { ! kill -0 "$1" 2>/dev/null; }

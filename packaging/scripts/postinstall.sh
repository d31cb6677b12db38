#!/bin/sh
# After the files are there: dpkg says configure, rpm how many versions are installed.
set -e
case $1 in configure | 1 | 2) ;; *) exit 0 ;; esac
if ! getent passwd timer-service >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/timer-service --no-create-home --shell /usr/sbin/nologin timer-service
fi
if [ ! -e /var/lib/timer-service ]; then
  install -d -m 0700 -o timer-service -g timer-service /var/lib/timer-service
fi
# Later it is the administrator's. But rpm gives the folder, and settings that were not edited,
# to root again with each upgrade.
case "$1 ${2-}" in
"configure " | "1 " | "2 ")
  for name in /etc/timer-service /etc/timer-service/timer-service.yaml; do
    if [ "$(stat -c %G "$name")" = root ]; then chgrp timer-service "$name"; fi
  done
  ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart timer-service.service
fi

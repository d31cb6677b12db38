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
# At the first installation only: later it is the administrator's.
if [ "$1 ${2-}" = "configure " ] || [ "$1" = 1 ]; then
  chgrp timer-service /etc/timer-service /etc/timer-service/timer-service.yaml
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart timer-service.service
fi

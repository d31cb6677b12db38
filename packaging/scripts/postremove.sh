#!/bin/sh
# The data goes with dpkg --purge alone, the user stays: its id must not become another's.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/timer-service /etc/timer-service
fi

#!/bin/sh
# dpkg says remove or upgrade, rpm how many versions remain.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now timer-service.service
fi

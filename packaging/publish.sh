#!/usr/bin/env bash
# Pushes image and chart of a release to a registry, and prints where they are, with their
# digests: publish.sh FOLDER REGISTRY, such as publish.sh dist ghcr.io/event-service-agent. The
# credentials are those of docker login. Needs helm.
set -euo pipefail
[ $# = 2 ] || { echo "usage: publish.sh FOLDER REGISTRY" >&2; exit 2; }
dist=$(realpath "$1") registry=$2
cd "$(dirname "$0")/tools"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

charts=("$dist"/timer-service-*.tgz) images=("$dist"/timer-service_*_image.tar)
chart=${charts[0]} image=${images[0]}
version=$(basename "${chart#*timer-service-}" .tgz)
[ "${#charts[@]}-$image" = "1-$dist/timer-service_${version}_image.tar" ] || { echo "$dist has no release, or more than one" >&2; exit 1; }
mkdir "$work/image"
tar -C "$work/image" -xf "$image"
# Tags have no plus sign. The push prints the digest.
GOWORK=off go tool crane push --index "$work/image" "$registry/timer-service:${version/+/_}" >"$work/image.ref"
printf 'image=%s\n' "$(cat "$work/image.ref")"
helm push ${HELM_PUSH_FLAGS:-} "$chart" "oci://$registry/charts" 2>&1 | tee "$work/helm.log" >&2
printf 'chart=%s\n' "$registry/charts/timer-service@$(sed -n 's/^Digest: //p' "$work/helm.log")"

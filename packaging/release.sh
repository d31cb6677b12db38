#!/usr/bin/env bash
# Writes the artefacts of a release into a folder: release.sh [FOLDER [SYSTEM...]]. The same
# commit and the same Go give the same bytes. VERSION is the version; without it that of
# the tag, or one made of time and commit.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-dist}
systems=("${@:2}")
[ "${#systems[@]}" -gt 0 ] || systems=({linux,darwin,windows}/{amd64,arm64})
max_bytes=$((59 * 1000 * 1000)) # docs/adr/measured.md lists what weighs

export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C GOFLAGS='' GOWORK=off CGO_ENABLED=0
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
version=${VERSION:-$(git describe --tags --exact-match --match 'v*' 2>/dev/null ||
  echo "v0.0.0-$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)-$(git rev-parse --short=12 HEAD)")}
[ -z "$(git status --porcelain)" ] || version+=+dirty
umask 022
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools=$work/tools
mkdir "$tools" "$work/completion"
go -C packaging/tools build -o "$tools/" ./notices ./image github.com/goreleaser/nfpm/v2/cmd/nfpm

# build SYSTEM FILE
build() {
  GOOS=${1%/*} GOARCH=${1#*/} go build -trimpath -buildvcs=true -ldflags="-s -w -X main.release=$version" -o "$2" ./cmd/timer-service
}

# What is the same on all systems, by a binary for this one.
host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
build "$host" "$work/timer-service"
for shell in bash zsh fish powershell; do "$work/timer-service" completion "$shell" >"$work/completion/$shell"; done
"$tools/notices" "$work" "$version" "${systems[@]}"
cp "$work/sbom.cdx.json" "$work/LICENSES.txt" "$out/"

images=()
for system in "${systems[@]}"; do
  os=${system%/*} arch=${system#*/}
  name=timer-service_${version#v}_${os}_$arch
  stage=$work/$name
  binary=timer-service
  [ "$os" != windows ] || binary+=.exe
  mkdir "$stage"
  if [ "$system" = "$host" ]; then cp "$work/timer-service" "$stage/$binary"; else build "$system" "$stage/$binary"; fi
  size=$(wc -c <"$stage/$binary")
  printf '%s %d bytes\n' "$system" "$size"
  [ "$size" -le "$max_bytes" ] || { echo "FAILED: larger than $max_bytes" >&2; exit 1; }
  cp -r LICENSE CHANGELOG.md "$work/LICENSES.txt" "$work/completion" "$stage/"
  find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  if [ "$os" = windows ]; then
    (cd "$work" && find "$name" -print | sort | zip -q -X "$out/$name.zip" -@)
  else
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
  fi
  [ "$os" = linux ] || continue
  images+=("$arch=$stage/$binary")
  for packager in deb rpm; do
    STAGE=$stage ARCH=$arch VERSION=${version#v} \
      "$tools/nfpm" package -f packaging/nfpm.yaml -p "$packager" -t "$out/"
  done
done
if [ "${#images[@]}" -gt 0 ]; then
  "$tools/image" "$work/image" "$version" "$SOURCE_DATE_EPOCH" "${images[@]}"
  tar -C "$work/image" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar --mode=u+rw,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
    -cf "$out/timer-service_${version#v}_image.tar" .
fi

# The client for TypeScript, which npm packs with the same times on each day.
if command -v npm >/dev/null; then
  mkdir -p "$work/clients"
  cp -r clients/typescript "$work/clients/"
  (cd "$work/clients/typescript" && npm version --no-git-tag-version --allow-same-version "${version#v}" && npm ci --no-audit --no-fund &&
    npm pack --pack-destination "$out") >"$work/npm.log" 2>&1 || { cat "$work/npm.log" >&2; exit 1; }
else
  echo "WARNING: no npm here, so the client for TypeScript is NOT PACKED" >&2
fi

# The chart, as helm package makes it, but for its times. It takes the image that publish.sh pushes.
mkdir "$work/chart"
cp -rL packaging/helm/timer-service "$work/chart/"
sed -i "s/^version: .*/version: ${version#v}/; s/^appVersion: .*/appVersion: \"${version#v}\"/" "$work/chart/timer-service/Chart.yaml"
sed -i 's#^  repository: registry.example/timer-service$#  repository: ghcr.io/event-service-agent/timer-service#' "$work/chart/timer-service/values.yaml"
grep -q ghcr.io "$work/chart/timer-service/values.yaml"
tar -C "$work/chart" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar --mode=u+rw,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
  -cf - timer-service/{Chart.yaml,values.yaml,values.schema.json,rules.yml,templates} |
  gzip -9n >"$out/timer-service-${version#v}.tgz"
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && cp "$work/SHA256SUMS" .)

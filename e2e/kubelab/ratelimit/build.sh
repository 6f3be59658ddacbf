#!/bin/sh
# Builds the service of global rate limits, unmodified, into OUT as `ratelimit`.
set -eu
[ $# = 1 ] || { echo "usage: build.sh OUT" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
export CGO_ENABLED=0
go build -buildvcs=false -ldflags "-s -w" -o "$out/ratelimit" github.com/envoyproxy/ratelimit/src/service_cmd

#!/bin/sh
# Builds the example of an OpenID Provider that its library has, unmodified, into OUT as `openid-provider`.
set -eu
[ $# = 1 ] || { echo "usage: build.sh OUT" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
export CGO_ENABLED=0
go build -buildvcs=false -ldflags "-s -w" -o "$out/openid-provider" github.com/zitadel/oidc/v3/example/server

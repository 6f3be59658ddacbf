#!/bin/sh
# Builds the service in folder NAME, unmodified, into OUT as NAME: the one tool of the Go module there.
set -eu
[ $# = 2 ] || { echo "usage: build.sh NAME OUT" >&2; exit 2; }
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/$1"
export CGO_ENABLED=0
go build -buildvcs=false -ldflags "-s -w" -o "$out/$1" "$(sed -n 's/^tool //p' go.mod)"

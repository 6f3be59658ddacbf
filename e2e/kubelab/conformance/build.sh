#!/bin/sh
# Builds what the official conformance suite needs beside the lab itself into OUT: kubelab-conformance (the suite as a
# command), echo-basic (the suite's backend) and crds/ (the definitions of the same version of Gateway API).
#
# The suite is written for a newer Go than the lab. GOTOOLCHAIN=auto lets the go command fetch that toolchain through
# the module proxy and check it against the checksum database, once, if the installed one is older.
set -eu
[ $# = 1 ] || { echo "usage: build.sh OUT" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
go build -buildvcs=false -ldflags "-s -w" -o "$out/echo-basic" sigs.k8s.io/gateway-api/conformance/echo-basic
cd conformance
export GOTOOLCHAIN=auto
go build -buildvcs=false -ldflags "-s -w" -o "$out/kubelab-conformance" .
rm -rf "$out/crds"
cp -r "$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd" "$out/crds"
chmod -R u+w "$out/crds"

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TARGET", "/opt/edge")
	if err := os.WriteFile(filepath.Join(dir, "extra"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lab.yaml")
	if err := os.WriteFile(file, []byte(`images:
- {match: "*edge/edge-proxy:*", command: ["${TARGET}/edge-proxy", run], path: [.], args: [--default]}
- {match: "tool", command: [sh]}
crds: [/opt/standard, crds]
`), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/opt/standard", filepath.Join(dir, "crds")}; !reflect.DeepEqual(c.CRDs, want) {
		t.Errorf("crds: %v", c.CRDs)
	}
	if c.find("example.com/nginx:1") != nil || c.find("tool:1") != nil || c.find("k8s/echo-basic:v1") == nil {
		t.Error("find")
	}
	im := c.find("registry.example.com/edge/edge-proxy:dev@sha256:00")
	if im == nil {
		t.Fatal("edge-proxy not found")
	}
	for _, tc := range []struct{ command, args, want []string }{
		{nil, nil, []string{"/opt/edge/edge-proxy", "run", "--default"}},
		{nil, []string{"-v"}, []string{"/opt/edge/edge-proxy", "run", "-v"}},
		{[]string{"edge-proxy"}, []string{"-v"}, []string{"/opt/edge/edge-proxy", "-v"}},
		{[]string{"/usr/bin/extra", "x"}, nil, []string{filepath.Join(dir, "extra"), "x"}},
		{[]string{"/bin/other"}, nil, []string{"/bin/other"}},
	} {
		if got := im.argv(tc.command, tc.args); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("argv(%v, %v) = %v, want %v", tc.command, tc.args, got, tc.want)
		}
	}
}

func TestNth(t *testing.T) {
	for _, tc := range []struct {
		cidr string
		n    int
		want string
	}{{podCIDR4, 2, "10.244.0.2"}, {podCIDR4, 300, "10.244.1.44"}, {podCIDR6, 70000, "fd00:10:244::1:1170"}, {lbCIDR6, 1, "fd00:172:30::1"}} {
		if got := nth(tc.cidr, tc.n); got != tc.want {
			t.Errorf("nth(%s, %d) = %s, want %s", tc.cidr, tc.n, got, tc.want)
		}
	}
}

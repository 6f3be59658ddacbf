package main

// lab.yaml.  Relative paths in it are relative to the file; ${VAR} in a value is taken from the environment.

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Config is the content of lab.yaml.
type Config struct {
	// Images maps image names to host programs; the first match wins, built-in ones come last.
	Images []Image `json:"images,omitempty"`
	// CRDs and Apply name files or directories that are applied before the lab is ready, in this order.
	CRDs  []string `json:"crds,omitempty"`
	Apply []string `json:"apply,omitempty"`
	// Hosts are extra names that the lab's DNS server answers (name → address).
	Hosts map[string]string `json:"hosts,omitempty"`
}

// Image stands in for a container image.
type Image struct {
	// Match is compared with the image name; * stands for any characters, "/" and ":" included.
	Match string `json:"match"`
	// Command is the entry point, used when the container names no command of its own.
	Command []string `json:"command,omitempty"`
	// Path lists directories in which the program of a container's own command is looked for first, by base name.
	// (A command whose base name is that of Command[0] also finds it.)
	Path []string `json:"path,omitempty"`
	// Env is added to the container's environment, Args are used when the container has none.
	Env  map[string]string `json:"env,omitempty"`
	Args []string          `json:"args,omitempty"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// exeDir is where kubelab and the programs built beside it are.
func exeDir() string { return filepath.Dir(exePath()) }

func exePath() string {
	if e := os.Getenv("KUBELAB_EXE"); e != "" {
		return e
	}
	e, _ := os.Executable()
	return e
}

func loadConfig(file string) (*Config, error) {
	c := &Config{}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(b, c); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	base, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	// path resolves a value that names a file; a bare program name is left for $PATH.
	path := func(s string) string {
		s = os.ExpandEnv(s)
		if s == "" || filepath.IsAbs(s) {
			return s
		}
		return filepath.Join(base, s)
	}
	for i := range c.Images {
		im := &c.Images[i]
		for j, s := range im.Command {
			im.Command[j] = os.ExpandEnv(s)
			if j == 0 && strings.Contains(s, "/") {
				im.Command[0] = path(s)
			}
		}
		for j, s := range im.Args {
			im.Args[j] = os.ExpandEnv(s)
		}
		for j, s := range im.Path {
			im.Path[j] = path(s)
		}
		for k, s := range im.Env {
			im.Env[k] = os.ExpandEnv(s)
		}
	}
	for _, l := range [][]string{c.CRDs, c.Apply} {
		for i, s := range l {
			l[i] = path(s)
		}
	}
	echo := []string{filepath.Join(exeDir(), "echo-basic")}
	c.Images = append(c.Images,
		Image{Match: "*/echo-basic:*", Command: echo},
		Image{Match: "*/echo-advanced:*", Command: echo},
		Image{Match: "*/busybox:*", Command: []string{"/bin/sh"}},
		Image{Match: "busybox:*", Command: []string{"/bin/sh"}},
	)
	return c, nil
}

// find returns the mapping of an image, or nil.
func (c *Config) find(image string) *Image {
	for i, im := range c.Images {
		re := "^" + strings.ReplaceAll(regexp.QuoteMeta(im.Match), `\*`, ".*") + "$"
		if ok, _ := regexp.MatchString(re, image); ok {
			return &c.Images[i]
		}
	}
	return nil
}

// argv composes what to execute for a container with the given command and args, as a container runtime would.
func (im *Image) argv(command, args []string) []string {
	if len(command) == 0 {
		if len(args) == 0 {
			args = im.Args
		}
		return append(append([]string{}, im.Command...), args...)
	}
	argv := append(append([]string{}, command...), args...)
	name := filepath.Base(argv[0])
	for _, d := range im.Path {
		if p := filepath.Join(d, name); isExecutable(p) {
			argv[0] = p
			return argv
		}
	}
	if len(im.Command) > 0 && filepath.Base(im.Command[0]) == name {
		argv[0] = im.Command[0]
	}
	return argv
}

func isExecutable(p string) bool {
	st, err := os.Stat(p)
	return err == nil && !st.IsDir() && st.Mode()&0o111 != 0
}

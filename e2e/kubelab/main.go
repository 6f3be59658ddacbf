// Command kubelab starts a small but real Kubernetes on one Linux machine, without a container runtime, inside
// namespaces of its own, runs a command against it, and removes everything again.  See README.md.
//
// The binary is multi-call: `kubelab run` (the launcher, outside) re-executes itself as `kubelab __lab` (PID 1 of the
// lab's namespaces, lab.go), which re-executes itself once per component as `kubelab __component NAME FLAGS…`.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const usage = `kubelab – a real Kubernetes API with pods as host processes (README.md)

  kubelab run  [flags] -- CMD…   start a lab, run CMD inside it, tear down, exit with CMD's status
  kubelab up   [flags]           start a lab, print one "ready" line, stay until SIGINT/SIGTERM
  kubelab exec [--dir DIR] -- CMD…                    run CMD inside a running lab
  kubelab stop|start|restart|freeze|thaw COMPONENT [--dir DIR]   (freeze = SIGSTOP)
  kubelab status [--dir DIR]     components: etcd, apiserver, controller-manager, proxy, node

flags of run and up:
  --config FILE   lab.yaml: image map, CRDs, manifests (README.md)
  --crds LIST     comma separated: files or folders with CustomResourceDefinitions, beside those of lab.yaml
  --dir DIR       working directory (default: a temporary one, removed at exit); a short path, sockets live in it
  --logs DIR      where logs go and stay (default: logs/ in the working directory)
  -v N            log level of the Kubernetes components (default 1)
`

func init() {
	// Namespaces are an attribute of threads.  Pinning the main goroutine to the main thread keeps the threads whose
	// namespaces we change (withThread) apart from the one that /proc/self stands for.
	runtime.LockOSThread()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	verb, args := os.Args[1], os.Args[2:]
	switch verb {
	case "run", "up":
		os.Exit(launch(verb, args))
	case "exec":
		os.Exit(execInLab(args))
	case "stop", "start", "restart", "freeze", "thaw", "status":
		os.Exit(control(verb, args))
	case "__lab":
		os.Exit(labMain(args))
	case "__component":
		os.Exit(componentMain(args))
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}

func fail(format string, a ...any) int {
	fmt.Fprintf(os.Stderr, "kubelab: "+format+"\n", a...)
	return 1
}

// launch creates the namespaces: it starts `kubelab __lab` in new network, mount, PID and UTS namespaces and waits.
// Because the child is PID 1 of a PID namespace and dies with us (Pdeathsig), no process survives the launcher, and
// with the last process go the mounts and the network.
func launch(verb string, args []string) int {
	fs := flag.NewFlagSet(verb, flag.ExitOnError)
	config := fs.String("config", "", "")
	crds := fs.String("crds", "", "")
	dir := fs.String("dir", "", "")
	logs := fs.String("logs", "", "")
	v := fs.Int("v", 1, "")
	fs.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	_ = fs.Parse(args)
	if verb == "run" && fs.NArg() == 0 {
		return fail("run needs a command after --")
	}
	if os.Geteuid() != 0 {
		return fail("needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN) to create namespaces and mounts")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return fail("needs the nft program (Debian package nftables) for kube-proxy")
	}
	cleanup := func() {}
	if *dir == "" {
		d, err := os.MkdirTemp("", "kubelab-")
		if err != nil {
			return fail("%v", err)
		}
		*dir, cleanup = d, func() { os.RemoveAll(d) }
	} else {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fail("%v", err)
		}
		*dir = abs
		if c, err := net.Dial("unix", filepath.Join(abs, "control.sock")); err == nil {
			c.Close()
			return fail("a lab is already running in %s", abs)
		}
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return fail("%v", err)
		}
		cleanup = func() { // keep logs/ for the post-mortem
			for _, n := range []string{"state", "pki", "kubeconfig", "pid", "control.sock"} {
				os.RemoveAll(filepath.Join(abs, n))
			}
		}
		cleanup() // what a killed lab may have left
		os.RemoveAll(filepath.Join(abs, "logs"))
	}
	defer cleanup()
	if err := keepLogs(*dir, *logs); err != nil {
		return fail("%v", err)
	}

	cmd := exec.Command("/proc/self/exe", append([]string{"__lab", verb, *dir, *config, *crds, strconv.Itoa(*v), "--"}, fs.Args()...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	self, err := os.Executable() // /proc/self/exe means another file in the child: tell it where we are
	if err != nil {
		return fail("%v", err)
	}
	cmd.Env = append(os.Environ(), "KUBELAB_EXE="+self)
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	if err := cmd.Start(); err != nil {
		return fail("cannot create namespaces: %v", err)
	}
	if err := os.WriteFile(filepath.Join(*dir, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		return fail("%v", err)
	}
	go func() {
		for s := range sigs {
			_ = cmd.Process.Signal(s)
		}
	}()
	return exitStatus(cmd.Wait())
}

// keepLogs makes DIR/logs a link to a folder that outlives the lab, without what an earlier lab has left there.
func keepLogs(dir, logs string) error {
	if logs == "" {
		return nil
	}
	abs, err := filepath.Abs(logs)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(abs), os.MkdirAll(abs, 0o755)); err != nil {
		return err
	}
	return os.Symlink(abs, filepath.Join(dir, "logs"))
}

func exitStatus(err error) int {
	var ee *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ee):
		if ws := ee.Sys().(syscall.WaitStatus); ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return ee.ExitCode()
	}
	return fail("%v", err)
}

func labPID(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return 0, fmt.Errorf("no lab is running in %q", dir)
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// dirFlag parses `[--dir DIR]`; inside a lab $KUBELAB_DIR is the default.
func dirFlag(name string, args []string) (*flag.FlagSet, string) {
	fs := flag.NewFlagSet(name, flag.ExitOnError)
	dir := fs.String("dir", os.Getenv("KUBELAB_DIR"), "directory of the lab")
	_ = fs.Parse(args)
	d, _ := filepath.Abs(*dir)
	return fs, d
}

func execInLab(args []string) int {
	fs, dir := dirFlag("exec", args)
	if fs.NArg() == 0 {
		return fail("exec needs a command")
	}
	cmd := exec.Command(fs.Arg(0), fs.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), labEnv(dir)...)
	if os.Getenv("KUBELAB_DIR") == dir { // already inside
		return exitStatus(cmd.Run())
	}
	pid, err := labPID(dir)
	if err != nil {
		return fail("%v", err)
	}
	wd, _ := os.Getwd()
	// main runs on the locked main thread: enter the namespaces with it, children inherit them
	if err := enterNamespaces(fmt.Sprintf("/proc/%d/ns", pid), "net", "uts", "pid", "mnt"); err != nil {
		return fail("cannot enter the lab: %v", err)
	}
	cmd.Dir = wd
	signal.Ignore(unix.SIGINT) // the terminal sends it to the command as well
	return exitStatus(cmd.Run())
}

// control sends one line to the lab's unix socket (works from inside and outside of the lab).
func control(verb string, args []string) int {
	name := ""
	if verb != "status" {
		if len(args) == 0 {
			return fail("%s needs a component: %s", verb, strings.Join(componentNames, ", "))
		}
		name, args = args[0], args[1:]
	}
	_, dir := dirFlag(verb, args)
	c, err := net.DialTimeout("unix", filepath.Join(dir, "control.sock"), 5*time.Second)
	if err != nil {
		return fail("no lab is running in %q: %v", dir, err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s %s\n", verb, name)
	sc := bufio.NewScanner(c)
	rc := 1
	for sc.Scan() {
		if sc.Text() == "ok" {
			rc = 0
			continue
		}
		fmt.Println(sc.Text())
	}
	return rc
}

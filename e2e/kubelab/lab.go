package main

// The lab process: PID 1 inside the namespaces.  It sets them up, starts and supervises the components, runs the
// small controllers (controllers.go, dns.go), and finally the user's command.

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var labTools = []string{"KUBELAB_NODE_IP=" + nodeIP4, "KUBELAB_LB_CIDR=" + lbCIDR4, "KUBELAB_ANYIP_CIDR=" + anyCIDR4}

func labEnv(dir string) []string {
	return append([]string{"KUBECONFIG=" + filepath.Join(dir, "kubeconfig"), "KUBELAB_DIR=" + dir}, labTools...)
}

// setupMounts gives the lab its own /proc (for the PID namespace) and a tmpfs for everything that need not survive:
// etcd's data, the kubelet's directory, container root file systems.
func setupMounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("kubelab", state, "tmpfs", 0, "mode=755,size=50%"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	for _, d := range []string{"state/netns", "state/containers", "state/sandboxes", "state/kubelet", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// labMain is `kubelab __lab VERB DIR CONFIG CRDS V -- CMD…`.
func labMain(args []string) int {
	verb, dir, configFile, crds, v, cmd := args[0], args[1], args[2], args[3], args[4], args[6:]
	start := time.Now()
	config, err := loadConfig(configFile)
	if err != nil {
		return fail("%v", err)
	}
	for _, c := range strings.FieldsFunc(crds, func(r rune) bool { return r == ',' }) {
		abs, err := filepath.Abs(c)
		if err != nil {
			return fail("%v", err)
		}
		config.CRDs = append(config.CRDs, abs)
	}
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	for _, step := range []func() error{
		func() error { return setupMounts(dir) },
		func() error { return setupLabNetwork(dir) },
		func() error { return makePKI(dir) },
	} {
		if err := step(); err != nil {
			return fail("setup: %v", err)
		}
	}
	s := &supervisor{dir: dir, components: componentTable(dir, configFile, v)}
	if err := s.serveControl(); err != nil {
		return fail("control socket: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- bringUp(ctx, s, dir, config) }()
	go reapOrphans()
	select {
	case err := <-ready:
		if err != nil {
			return fail("not ready after %.0f s: %v (see %s)", time.Since(start).Seconds(), err, filepath.Join(dir, "logs"))
		}
	case sig := <-sigs:
		return 128 + int(sig.(syscall.Signal))
	}
	if verb == "up" {
		fmt.Printf("kubelab: ready in %.1f s; KUBECONFIG=%s; enter with: kubelab exec --dir %s -- CMD\n", time.Since(start).Seconds(), filepath.Join(dir, "kubeconfig"), dir)
		<-sigs
		return 0
	}
	fmt.Fprintf(os.Stderr, "kubelab: ready in %.1f s\n", time.Since(start).Seconds())
	c := exec.Command(cmd[0], cmd[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), labEnv(dir)...)
	if err := c.Start(); err != nil {
		return fail("%v", err)
	}
	go func() {
		for n := 0; ; n++ {
			sig := <-sigs
			_ = c.Process.Signal(sig)
			if n == 0 {
				time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
			}
		}
	}()
	return exitStatus(c.Wait()) // and with PID 1 everything in the PID namespace dies
}

// reapOrphans collects processes whose parents have ended and which PID 1 has inherited.  Our own children are
// waited for by os/exec at once, so what is still a zombie after a while is not one of them.
func reapOrphans() {
	for seen := map[int]bool{}; ; time.Sleep(10 * time.Second) {
		now := map[int]bool{}
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, f := range stats {
			b, _ := os.ReadFile(f)
			_, rest, _ := strings.Cut(string(b), ") ") // PID (NAME) STATE PPID …
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && strings.HasPrefix(rest, "Z 1 ") {
				if now[pid] = true; seen[pid] {
					_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
				}
			}
		}
		seen = now
	}
}

// bringUp starts all components and returns when pods can be created.
func bringUp(ctx context.Context, s *supervisor, dir string, config *Config) error {
	ctx, cancel := context.WithTimeout(ctx, 180*time.Second)
	defer cancel()
	for _, n := range []string{"etcd", "apiserver"} {
		if err := s.do("start", n); err != nil {
			return err
		}
	}
	restConfig, err := adminConfig(dir)
	if err != nil {
		return err
	}
	if err := poll(ctx, "API server", func() error { return readyz("https://" + nodeIP4 + ":6443/readyz") }); err != nil {
		return err
	}
	for _, n := range []string{"controller-manager", "node", "proxy"} {
		if err := s.do("start", n); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	if err := startControllers(context.Background(), client, config); err != nil {
		return err
	}
	if err := applyAll(ctx, restConfig, config); err != nil {
		return err
	}
	if err := poll(ctx, "node", func() error {
		n, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("not Ready")
	}); err != nil {
		return err
	}
	if err := poll(ctx, "kube-proxy", func() error { return readyz("http://127.0.0.1:10256/healthz") }); err != nil {
		return err
	}
	return poll(ctx, "default ServiceAccount", func() error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func adminConfig(dir string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err == nil {
		c.QPS, c.Burst = 500, 1000
	}
	return c, err
}

func poll(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// readyz asks a health endpoint; only liveness matters here, so the certificate is not checked.
func readyz(url string) error {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	r, err := c.Get(url)
	if err != nil {
		return err
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}

// A supervisor keeps the wanted components running (as children of the lab process) and obeys the control socket.
type supervisor struct {
	mu         sync.Mutex
	dir        string
	components []*component
}

type component struct {
	name    string
	args    []string // of `kubelab __component`
	want    bool
	process *os.Process
	exited  chan struct{} // closed when process has ended
	starts  int
}

func (s *supervisor) find(name string) *component {
	name = strings.TrimPrefix(name, "kube-")
	for _, c := range s.components {
		if c.name == name || name == "kcm" && c.name == "controller-manager" || name == "kubelet" && c.name == "node" {
			return c
		}
	}
	return nil
}

// do carries out one verb; it returns when the process has been started or has ended, not when it is ready.
func (s *supervisor) do(verb, name string) error {
	s.mu.Lock()
	c := s.find(name)
	if c == nil {
		s.mu.Unlock()
		return fmt.Errorf("no component %q (have %s)", name, strings.Join(componentNames, ", "))
	}
	p, exited := c.process, c.exited
	switch verb {
	case "start":
		defer s.mu.Unlock()
		if c.want {
			return nil
		}
		c.want = true
		return s.spawn(c)
	case "stop", "restart":
		c.want = false
		s.mu.Unlock()
		if p != nil {
			_ = p.Signal(unix.SIGCONT)
			_ = p.Signal(unix.SIGTERM)
			select {
			case <-exited:
			case <-time.After(3 * time.Second): // the API server would drain for up to a minute
				_ = p.Kill()
				<-exited
			}
		}
		if verb == "restart" {
			return s.do("start", name)
		}
		return nil
	case "freeze", "thaw":
		s.mu.Unlock()
		if p == nil {
			return errors.New("not running")
		}
		return p.Signal(map[string]syscall.Signal{"freeze": unix.SIGSTOP, "thaw": unix.SIGCONT}[verb])
	}
	s.mu.Unlock()
	return fmt.Errorf("unknown verb %q", verb)
}

// spawn starts the process of c and restarts it for as long as it is wanted; s.mu is held.
func (s *supervisor) spawn(c *component) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "logs", c.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", append([]string{"__component"}, c.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "KUBELAB_DIR="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C on the terminal is for the user's command only
	if c.name == "node" {                                 // so that all pods, their mounts and networks go with it
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process, c.exited = cmd.Process, make(chan struct{})
	c.starts++
	exited := c.exited
	go func() {
		err := cmd.Wait()
		s.mu.Lock()
		c.process = nil
		close(exited)
		again := c.want
		s.mu.Unlock()
		if again {
			fmt.Fprintf(os.Stderr, "kubelab: %s ended (%v), starting it again\n", c.name, err)
			time.Sleep(time.Second)
			s.mu.Lock()
			if c.want && c.process == nil {
				_ = s.spawn(c)
			}
			s.mu.Unlock()
		}
	}()
	return nil
}

func (s *supervisor) serveControl() error {
	path := filepath.Join(s.dir, "control.sock")
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				line, _ := bufio.NewReader(c).ReadString('\n')
				verb, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				if verb == "status" {
					s.status(c)
				} else if err := s.do(verb, name); err != nil {
					fmt.Fprintln(c, "error:", err)
					return
				}
				fmt.Fprintln(c, "ok")
			}()
		}
	}()
	return nil
}

func (s *supervisor) status(w net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.components {
		state := "stopped"
		if c.process != nil {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.Pid))
			rss := ""
			for _, l := range strings.Split(string(b), "\n") {
				if f := strings.Fields(l); len(f) > 1 && f[0] == "VmRSS:" {
					kb, _ := strconv.Atoi(f[1])
					rss = fmt.Sprintf(" %d MiB", kb/1024)
				}
			}
			state = "running" + rss
		}
		fmt.Fprintf(w, "%-20s %s, %d restart(s)\n", c.name, state, max(0, c.starts-1))
	}
}

// Command gotest runs go test -json and prints its progress. There is a line for each package that
// begins and ends, and for each test that takes long. If a test fails its output is printed. A file
// gets all output, package by package, as go test -v writes it.
//
//	gotest LOG go test -json ARGUMENT...
//
// Tests run in the same way however gotest is started: under the umask 022, without a terminal, and
// with SIGHUP as it is by default. The exit status is go test's.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// slow is how long a test runs before a line names it.
const slow = 10 * time.Second

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: gotest LOG go test -json ARGUMENT...")
		os.Exit(2)
	}
	status, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		status = 1
	}
	os.Exit(status)
}

func run(path string, args []string) (status int, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return 0, err
	}
	log, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	syscall.Umask(0o022)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGHUP {
				syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
			}
		}
	}()
	p := &progress{to: os.Stdout, log: log, now: time.Now, packages: map[string]*pkg{}}
	stop := make(chan struct{})
	go p.tick(stop)
	err = p.read(out)
	close(stop)
	if waited := cmd.Wait(); cmd.ProcessState == nil {
		err = errors.Join(err, waited)
	}
	return max(cmd.ProcessState.ExitCode(), 0), errors.Join(err, ended(cmd.ProcessState))
}

// ended is an error for a go test that a signal has killed.
func ended(state *os.ProcessState) error {
	if state.Exited() {
		return nil
	}
	return fmt.Errorf("go test: %v", state)
}

// event is a line of go test -json (go doc test2json, go help buildjson).
type event struct {
	Action, Package, Test, Output string
}

// pkg is a package whose tests run.
type pkg struct {
	begun bool
	text  strings.Builder             // all output
	tests map[string]*strings.Builder // of each test; "" is the package's
	since map[string]time.Time        // tests that run
	slow  map[string]bool             // those that a line has named
}

type progress struct {
	to, log  io.Writer
	now      func() time.Time
	mu       sync.Mutex
	packages map[string]*pkg
}

func (p *progress) printf(format string, args ...any) { fmt.Fprintf(p.to, format, args...) }

// tick prints slow tests until stop is closed.
func (p *progress) tick(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
			p.printSlow()
		}
	}
}

// printSlow prints the tests that have become slow.
func (p *progress) printSlow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, k := range p.packages {
		for test, since := range k.since {
			if took := p.now().Sub(since); took >= slow && !k.slow[test] {
				k.slow[test] = true
				p.printf("runs\t%s %s: %.0fs so far\n", short(name), test, took.Seconds())
			}
		}
	}
}

// read follows the events up to the end.
func (p *progress) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := p.follow(decoded(line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return p.flush()
		}
		if err != nil {
			return err
		}
	}
}

// decoded returns the event that a line is. Any other line is output of no package.
func decoded(line []byte) event {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		return event{Output: string(line)}
	}
	return e
}

func (p *progress) follow(e event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Package == "" { // from the compiler
		p.printf("%s", e.Output)
		_, err := io.WriteString(p.log, e.Output)
		return err
	}
	k := p.packages[e.Package]
	if k == nil {
		k = &pkg{tests: map[string]*strings.Builder{}, since: map[string]time.Time{}, slow: map[string]bool{}}
		p.packages[e.Package] = k
	}
	switch e.Action {
	case "output":
		k.text.WriteString(e.Output)
		if k.tests[e.Test] == nil {
			k.tests[e.Test] = &strings.Builder{}
		}
		k.tests[e.Test].WriteString(e.Output)
	case "run", "cont":
		if !k.begun {
			k.begun = true
			p.printf("begin\t%s\n", short(e.Package))
		}
		if !strings.Contains(e.Test, "/") {
			k.since[e.Test] = p.now()
		}
	case "pause":
		delete(k.since, e.Test)
	case "pass", "fail", "skip":
		return p.end(e, k)
	}
	return nil
}

// end is the end of a test, or of a package.
func (p *progress) end(e event, k *pkg) error {
	text := ""
	if b := k.tests[e.Test]; b != nil {
		text = b.String()
	}
	took := p.now().Sub(k.since[e.Test])
	delete(k.since, e.Test)
	delete(k.tests, e.Test)
	if e.Action == "fail" && e.Test != "" {
		p.printf("%s", text)
	}
	if e.Test != "" {
		if k.slow[e.Test] {
			p.printf("%s\t%s %s after %.0fs\n", e.Action, short(e.Package), e.Test, took.Seconds())
		}
		return nil
	}
	switch {
	case e.Action == "fail":
		for _, unended := range k.tests { // after a panic or the timeout
			p.printf("%s", unended)
		}
		p.printf("%s", text)
	case k.begun:
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "ok") {
				p.printf("%s", line)
			}
		}
	}
	delete(p.packages, e.Package)
	_, err := io.WriteString(p.log, k.text.String())
	return err
}

// flush writes the output of packages that did not come to their end.
func (p *progress) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, k := range p.packages {
		_, err := io.WriteString(p.log, k.text.String())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// short is a package's folder.
func short(name string) string {
	folder := strings.TrimPrefix(strings.TrimPrefix(name, "github.com/hookhost/hookhost"), "/")
	return cmp.Or(folder, ".")
}

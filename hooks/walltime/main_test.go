package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// TestMain turns the test program into a job's process if it was started as one. It fails when
// tests leave directories, processes or goroutines behind.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == actorArg {
		if err := act(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(kernfstest.Run(m, testPrefix()))
}

func testPrefix() string { return fmt.Sprintf("hhtest_hookwalltime_%d", os.Getpid()) }

const actorArg = "-walltime-hook-test-actor"

// act plays a job's process. It writes its pid to standard output when it is ready, and then waits
// to be killed.
func act(what string, args []string) error {
	ready := func() { fmt.Println(os.Getpid()) }
	switch what {
	case "sleep":
	case "ignore": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
	case "stat": // FILE, which may take forever
		go os.Stat(args[0])
	case "stop": // stops itself
		ready()
		if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
			return err
		}
		// Another thread may get the signal, so this one can continue briefly.
		time.Sleep(time.Hour)
		return nil
	case "trace": // THREAD..., and prevents them from ending
		if err := kernfstest.TraceExit(args...); err != nil {
			return err
		}
	case "burn": // uses cpu time
		ready()
		//lint:ignore SA5002 cpu time is to be burnt
		for {
		}
	case "note": // writes the signals that it gets to FILE
		return note(args[0], ready)
	case "daemon": // starts WHAT in a new session and ends
		return spawn(true, args...)
	case "shell": // starts each of WHAT:ARG and continues as "note" with FILE
		for _, child := range args[1:] {
			if err := spawn(false, strings.Split(child, "|")...); err != nil {
				return err
			}
		}
		return note(args[0], ready)
	case "storm": // forks forever; each child does so too, in a new session, and ends soon
		ready()
		for {
			cmd := exec.Command("/bin/sleep", "0.05")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				return err
			}
			go cmd.Wait()
		}
	}
	ready()
	time.Sleep(time.Hour)
	return nil
}

func spawn(session bool, args ...string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{actorArg}, args...)...)
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		return err
	}
	if !session {
		go cmd.Wait()
	}
	return nil
}

func note(file string, ready func()) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGUSR1, unix.SIGTERM, unix.SIGINT)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	ready()
	for sig := range signals {
		if _, err := fmt.Fprintln(f, unix.SignalName(sig.(syscall.Signal))); err != nil {
			return err
		}
	}
	return nil
}

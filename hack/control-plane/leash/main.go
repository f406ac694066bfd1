// Command leash runs a program that must never outlive whoever started it.
//
//	leash PROGRAM ARGS...
//
// The starter holds the other end of leash's stdin. When that end is closed, or its holder is gone, the program gets
// SIGTERM and, 20 s later, SIGKILL. A byte on stdin means SIGKILL now. If leash itself is killed, the kernel kills the
// program. leash exits with the program's exit code, or with 128 + N if signal N ended it.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const grace = 20 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: leash PROGRAM ARGS...")
		os.Exit(2)
	}
	// The death signal is tied to the thread that forked, so this thread must live as long as the program.
	runtime.LockOSThread()
	// A terminal sends these to its whole foreground group; only the starter decides what they mean.
	// Caught and dropped, not ignored: an ignored signal would be inherited by the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)

	program := exec.Command(os.Args[1], os.Args[2:]...)
	program.Stdout = os.Stdout
	program.Stderr = os.Stderr
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "leash:", err)
		os.Exit(127)
	}
	go endWhenAsked(-program.Process.Pid)

	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		end(-program.Process.Pid)
	}()
	os.Exit(code(program.Wait()))
}

// endWhenAsked waits for a byte on stdin (kill at once) or for its end (ask first).
func endWhenAsked(group int) {
	var order [1]byte
	if n, _ := os.Stdin.Read(order[:]); n == 1 {
		_ = syscall.Kill(group, syscall.SIGKILL)
		return
	}
	end(group)
}

func end(group int) {
	_ = syscall.Kill(group, syscall.SIGTERM)
	time.Sleep(grace)
	_ = syscall.Kill(group, syscall.SIGKILL)
}

func code(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "leash:", err)
			return 127
		}
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

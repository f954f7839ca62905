// Command bare does nothing, or says when it has begun and stays: what starting a program in a job
// is measured against.
package main

import (
	"strconv"
	"syscall"
)

func main() {
	if _, ok := syscall.Getenv("SAY"); !ok {
		return
	}
	var t syscall.Timeval
	syscall.Gettimeofday(&t)
	syscall.Write(1, []byte(strconv.Itoa(syscall.Getpid())+" "+strconv.FormatInt(int64(t.Sec)*1e6+int64(t.Usec),
		10)+"\n"))
	syscall.Pause()
}

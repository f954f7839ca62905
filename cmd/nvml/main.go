// Program nvml asks NVIDIA's management library (NVML) which GPUs there are and how they were used,
// and prints the answer as JSON.
//
// This is a separate program because a call of the driver may hang in the kernel forever. The
// caller then stops waiting for it (inventory.AskNVML). It is also the only program here that needs
// cgo, because it loads the library with dlopen. NVML is not linked in: on a machine without the
// library, the program starts and reports that.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

const help = `Usage: nvml [--library PATH] [--limit DURATION] COMMAND

Asks NVIDIA's management library (NVML) about this machine's GPUs.

Commands:
  inventory      print the GPUs, their MIG instances and NVLinks as JSON
  usage UUID...  print energy and the processes that accounting mode remembers, of these devices, as JSON
  sample MICROSECONDS UUID...
                 print utilization since that time (since 1970), memory, energy and power, of these devices, as JSON
  account on     turn accounting mode on for all GPUs that have it (root); the driver forgets it when it is unloaded

Options:
  --library PATH     the library (default libnvidia-ml.so.1, where the dynamic linker finds it)
  --limit DURATION   give up after so long (default 1m)
  --help             this text

Exit status:
  0  done
  1  failed; standard error says why
  2  wrong usage
  3  no NVML here: the library does not load, or it finds no driver
`

// errNone means that this machine has no NVML: exit status 3. All other errors exit with status 1.
var errNone = errors.New("no NVML here")

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("nvml", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("library", "libnvidia-ml.so.1", "")
	limit := flags.Duration("limit", time.Minute, "")
	misused := func(why string) int {
		fmt.Fprintf(stderr, "nvml: %s\nnvml --help tells more\n", why)
		return 2
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		io.WriteString(stdout, help)
		return 0
	case err != nil:
		return misused(err.Error())
	}
	ask, why := command(flags.Args())
	if why != "" {
		return misused(why)
	}
	// A caller that was killed cannot kill this program. A call that hangs in user space ends here;
	// one that hangs in the kernel does not.
	time.AfterFunc(*limit, func() {
		fmt.Fprintf(stderr, "nvml: no answer within %v\n", *limit)
		os.Exit(1)
	})
	err := func() error {
		l, err := open(*path)
		if err != nil {
			return err
		}
		answer, err := ask(l)
		if err != nil || answer == nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(answer)
	}()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "nvml: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	if errors.Is(err, errNone) {
		return 3
	}
	return 1
}

// command returns the function for the arguments, or the reason why they are invalid.
func command(args []string) (ask func(*library) (any, error), why string) {
	if len(args) == 0 {
		return nil, "what? inventory, usage, sample or account"
	}
	switch name, args := args[0], args[1:]; {
	case name == "inventory" && len(args) == 0:
		return func(l *library) (any, error) { return l.inventory() }, ""
	case name == "usage" && len(args) > 0:
		return func(l *library) (any, error) { return l.usage(args), nil }, ""
	case name == "usage":
		return nil, "usage: of which device? give UUIDs"
	case name == "sample":
		if len(args) < 2 {
			return nil, "sample: since when, and of which device? give microseconds and UUIDs"
		}
		since, err := strconv.ParseUint(args[0], 10, 63)
		if err != nil {
			return nil, fmt.Sprintf("sample: %q are no microseconds", args[0])
		}
		return func(l *library) (any, error) { return l.samples(since, args[1:]), nil }, ""
	case name == "account" && len(args) == 1 && args[0] == "on":
		return func(l *library) (any, error) { return nil, l.accountOn() }, ""
	default:
		return nil, fmt.Sprintf("what is %q?", strings.Join(append([]string{name}, args...), " "))
	}
}

package main

import (
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// config says what goes wrong and when.
type config struct {
	Mode  string        `toml:"mode"`  // one of modes; "" accepts
	Event hostapi.Event `toml:"event"` // at which event; the others are accepted
	// only while this file is not there; it is made first, so a restarted program behaves
	Once string `toml:"once"`
	// a file that gets a line per call: event, job id, number of the call for that job
	Log   string `toml:"log"`
	Value string `toml:"value"` // what the mode needs: a kind, a key=value, a text
	Alone bool   `toml:"alone"` // handle only Event
}

// modes are what can go wrong at an event, or be seen there.
var modes = []string{
	"",
	"exit",        // os.Exit(4)
	"kill",        // SIGKILL to itself
	"panic",       // in the event method
	"panic-aside", // in a goroutine, which ends the program
	"hang",        // deaf to the deadline
	"wait",        // until the deadline, and says so
	"long-line",   // 100 kB on standard error without a line break, then accepts
	"print",       // a line on standard output and two on standard error, then accepts
	"log",         // a line of each level with a field, then accepts
	"reject",      // with value as the message
	"rerun",       // rejects with job_action rerun
	"error",       // an error of the kind that value names
	"partial",     // resources_used mem=10kb and a node error
	"env",         // sets the variable value, KEY=VAL
	"attach-env",  // at begin and resize: sets the variable value of attached processes to the job's ncpus
	"say",         // answers with value, an outcome in JSON
	"used",        // sets the resource value, KEY=VAL
	"state",       // keeps the number of calls for the job as its state, notes it
	"again",       // wants to be called again after value, a duration
	// wants to be called when the job has run for value, a duration; at a periodic about some jobs,
	// for each
	"elapsed",
	"mkdir",     // makes the directory value with the job's id, and fails if it exists
	"forget",    // fails if this program has not had an earlier event of the job
	"misfit",    // an outcome that the event does not take
	"huge",      // a rejection with a message of so many bytes
	"child",     // leaves a process behind that sleeps, its pid in the file value
	"configure", // refuses its configuration
}

func newHook(s *hostapi.Setup) (any, error) {
	c := config{Event: hostapi.EventBegin}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	if !slices.Contains(modes, c.Mode) {
		return nil, hostapi.Errorf(hostapi.KindNode, "mode %q: none of%s", c.Mode, strings.Join(modes, " "))
	}
	if c.Mode == "configure" {
		return nil, hostapi.Errorf(hostapi.KindNode, "configuration refused: %s", c.Value)
	}
	h := &hook{config: c, name: s.Name, log: s.Log, calls: make(map[string]int)}
	if c.Alone {
		return h.alone(c.Event)
	}
	return h, nil
}

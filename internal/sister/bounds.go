package sister

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/hostapi"
)

// Bounds on what another host may tell of its part of a job. Each of a job's hosts has its part in
// one record, which is written at every event, and in texts that terminals get. A host that is out
// of order is not to stop this one.
const (
	maxUsage   = 4 << 20 // bytes of a host's usage as JSON: room for hostapi.MaxRanks
	maxDevices = 1024
	maxUsed    = 64 // resources
)

// checked returns a host's answer without the parts that are out of bounds. A note says that they
// were left out.
func checked(o *hostapi.Outcome) *hostapi.Outcome {
	usage, used := checkUsage(o.Usage), checkUsed(o.ResourcesUsed)
	if usage == nil && used == nil {
		return o
	}
	left := *o
	if usage != nil {
		left.Usage = nil
	}
	if used != nil {
		left.ResourcesUsed = nil
	}
	note := "left out of what it told: " + hostapi.OneLine(errors.Join(usage, used).Error())
	left.Notes = append(o.Notes[:len(o.Notes):len(o.Notes)], note)
	return &left
}

// checkUsage returns why a usage cannot be taken.
func checkUsage(u *hostapi.HostUsage) error {
	switch {
	case u == nil:
		return nil
	case len(u.Ranks) > hostapi.MaxRanks:
		return fmt.Errorf("usage: %d ranks are more than %d", len(u.Ranks), hostapi.MaxRanks)
	case len(u.Devices) > maxDevices:
		return fmt.Errorf("usage: %d devices are more than %d", len(u.Devices), maxDevices)
	}
	if err := u.CheckSeries(); err != nil {
		return err
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // what is escaped then, but for quotes and backslashes, has no place in a line
	if err := e.Encode(u); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	if text.Len() > maxUsage {
		return fmt.Errorf("usage: %d bytes are more than %d", text.Len(), maxUsage)
	}
	bare := strings.NewReplacer(`\\`, "", `\"`, "", "\n", "").Replace(text.String())
	if strings.ContainsRune(bare, '\\') || strings.ContainsFunc(bare, unicode.IsControl) {
		return errors.New("usage: a text in it is not one line")
	}
	return nil
}

// checkUsed returns why resources cannot be taken.
func checkUsed(r hostapi.Resources) error {
	if len(r) > maxUsed {
		return fmt.Errorf("resources_used: %d are more than %d", len(r), maxUsed)
	}
	for name, value := range r {
		if len(name) > maxName || len(value) > maxName || strings.ContainsFunc(name+value, unicode.IsControl) {
			return fmt.Errorf("resources_used: %s: not a resource", plain(hostapi.Clip(name, maxName)))
		}
	}
	return nil
}

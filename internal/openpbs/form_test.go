package openpbs

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

// The event command takes hostapi's JSON and an input file of pbs_mom alike.
func TestEventIsDecodedByItsForm(t *testing.T) {
	b := read(t, filepath.Join(captured, "job91_shimonly", "execjob_launch.in"))
	req, ignored, err := DecodeForm(hostapi.EventLaunch, bytes.NewReader(b))
	if err != nil || len(ignored) > 0 || req.Job.ID != "91.pbshost" || req.Env["PBS_JOBNAME"] != "envjob" ||
		req.PID != 0 {
		t.Errorf("an input file: %+v, ignored %v, %v", req, ignored, err)
	}
	_, _, err = DecodeForm(hostapi.EventBegin, bytes.NewReader(b))
	if err == nil || !strings.Contains(err.Error(), "execjob_launch") {
		t.Errorf("an input file as a begin: %v", err)
	}
	const known = `{"job":{"id":"1.x","owner":{"user":"u"}},"hook_name":"x"}`
	req, ignored, err = DecodeForm(hostapi.EventEnd, strings.NewReader(known))
	if err != nil || req.Job.ID != "1.x" || len(ignored) != 1 {
		t.Errorf("JSON: %+v, ignored %v, %v", req, ignored, err)
	}
	for name, text := range map[string]string{
		"nothing": "", "too long": "pbs." + strings.Repeat("x", MaxInput), "cut off": "pbs.event().job.id=1.x\n",
		"a size that is none": `{"job":{"id":"1.x","owner":{"user":"u"},"resource_list":{"mem":"much"}}}`,
	} {
		if req, _, err := DecodeForm(hostapi.EventEnd, strings.NewReader(text)); err == nil {
			t.Errorf("%s: taken, %+v", name, req)
		}
	}
}

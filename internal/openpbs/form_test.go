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
	req, err := DecodeForm(hostapi.EventLaunch, bytes.NewReader(b))
	if err != nil || req.Job.ID != "91.pbshost" || req.Env["PBS_JOBNAME"] != "envjob" ||
		req.PID != 0 {
		t.Errorf("an input file: %+v, %v", req, err)
	}
	_, err = DecodeForm(hostapi.EventBegin, bytes.NewReader(b))
	if err == nil || !strings.Contains(err.Error(), "execjob_launch") {
		t.Errorf("an input file as a begin: %v", err)
	}
	const known = `{"job":{"id":"1.x","owner":{"user":"u"}},"hook_name":"x"}`
	req, err = DecodeForm(hostapi.EventEnd, strings.NewReader(known))
	if err != nil || req.Job.ID != "1.x" {
		t.Errorf("JSON: %+v, %v", req, err)
	}
	for name, text := range map[string]string{
		"nothing": "", "too long": "pbs." + strings.Repeat("x", maxInput), "cut off": "pbs.event().job.id=1.x\n",
		"a size that is none": `{"job":{"id":"1.x","owner":{"user":"u"},"resource_list":{"mem":"much"}}}`,
	} {
		if req, err := DecodeForm(hostapi.EventEnd, strings.NewReader(text)); err == nil {
			t.Errorf("%s: taken, %+v", name, req)
		}
	}
}

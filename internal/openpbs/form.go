package openpbs

import (
	"bytes"
	"fmt"
	"io"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// DecodeForm reads an event in either of its forms: JSON (docs/events.md), or an input file of
// pbs_mom's hook. The first bytes show which one it is. It fails for an input file of another
// event.
func DecodeForm(event hostapi.Event, in io.Reader) (*hostapi.Request, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", event, err)
	}
	if !isInput(b) {
		req, err := hostapi.DecodeRequest(string(event), bytes.NewReader(b), maxInput)
		if err == nil {
			err = CheckRequest(req)
		}
		return req, err
	}
	e, err := Decode(b)
	switch {
	case err != nil:
		return nil, err
	case e.Request.Event != event:
		return nil, fmt.Errorf("event %s: the file has %s", event, e.Request.Event)
	}
	return e.Request, nil
}

// CheckRequest rejects values that PBS itself would never have sent.
func CheckRequest(req *hostapi.Request) error {
	if err := CheckResourceList(req); err != nil {
		return err
	}
	return CheckExecVnode(req)
}

// CheckResourceList rejects invalid values in Resource_List, which the job's user wrote.
func CheckResourceList(req *hostapi.Request) error {
	if req.Job == nil {
		return nil
	}
	if err := pbs.CheckResources(req.Job.ResourceList); err != nil {
		return fmt.Errorf("job.resource_list: %w", err)
	}
	return nil
}

// CheckExecVnode rejects an invalid exec_vnode, which PBS wrote.
func CheckExecVnode(req *hostapi.Request) error {
	if req.Job == nil || req.Job.ExecVnode == "" {
		return nil
	}
	if _, err := pbs.ParseExecVnode(req.Job.ExecVnode); err != nil {
		return fmt.Errorf("job.exec_vnode: %w", err)
	}
	return nil
}

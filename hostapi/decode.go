package hostapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// RequestLimit is the default limit on the size of an event, in bytes, for DecodeRequest.
const RequestLimit = 8 << 20

// maxProblem bounds the length of the error for a request, in bytes. The key or value that it names
// may be as long as the request.
const maxProblem = 1 << 10

// DecodeRequest reads the event named event from r and checks it. Everything from outside comes in
// this way. If event is "", the JSON names it. DecodeRequest also returns the keys that it ignored.
//
// Every error is one short line, of KindJob, and names the key. A request is refused if it is not a
// JSON object, if a value is of the wrong type, or if it contradicts event. A missing job or
// job.id, an id that CheckJobID refuses, and a NUL byte in a string are errors. So is a request of
// more than limit bytes (0 means RequestLimit).
//
// If a key occurs twice, the last one counts, as in encoding/json. hook_state, elapsed and partial
// are ignored: only the host may set them.
func DecodeRequest(event string, r io.Reader, limit int64) (*Request, []string, error) {
	if limit <= 0 {
		limit = RequestLimit
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, nil, Errorf(KindJob, "read event: %w", err)
	}
	if int64(len(text)) > limit {
		return nil, nil, Errorf(KindJob, "event: larger than %d bytes", limit)
	}
	req, ignored, err := parseRequest(text)
	if err == nil {
		err = req.fit(event)
	}
	if err != nil {
		if text := err.Error(); len(text) > maxProblem {
			err = errors.New(Clip(text, maxProblem))
		}
		return nil, nil, &Error{Kind: KindJob, Err: err}
	}
	return req, append(ignored, req.dropForeign()...), nil
}

// parseRequest parses the text and returns the keys that a Request does not have.
func parseRequest(text []byte) (*Request, []string, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil, errors.New("event: empty")
	}
	req := new(Request)
	err := json.Unmarshal(text, req)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, nil, fmt.Errorf("event: not JSON: line %d: %w", lineAt(text, syntax.Offset-1), syntax)
	}
	if whole := bytes.TrimSpace(text); whole[0] != '{' {
		return nil, nil, fmt.Errorf("event: want a JSON object, got %.20q", whole)
	}
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, nil, wrongType(bad)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("event: %w", err)
	}
	unknown, err := compare(text, reflect.TypeFor[Request]())
	if err != nil {
		return nil, nil, err
	}
	var ignored []string
	for _, key := range unknown {
		ignored = append(ignored, key.path)
	}
	return req, ignored, nil
}

// fit checks that the request matches the named event and has what the event needs.
func (r *Request) fit(event string) error {
	switch {
	case r.Event == "" && event == "":
		return errors.New("event: missing")
	case r.Event == "":
		r.Event = Event(event)
	case event != "" && event != string(r.Event):
		return fmt.Errorf("event: %q contradicts %q", r.Event, event)
	}
	if _, err := ParseEvent(string(r.Event)); err != nil {
		return err
	}
	if err := r.checkProcess(); err != nil {
		return err
	}
	if r.Event.ForJob() {
		if r.Job == nil {
			return errors.New("job: missing")
		}
		return r.Job.check("job")
	}
	for id, job := range r.JobList {
		if job == nil {
			return fmt.Errorf("job_list.%q: empty", id)
		}
		if job.ID == "" {
			job.ID = id
		}
		if job.ID != id {
			return fmt.Errorf("job_list.%q: its id is %q", id, job.ID)
		}
		if err := job.check("job_list." + strconv.Quote(id)); err != nil {
			return err
		}
	}
	return nil
}

// checkProcess checks the process to attach or to start.
func (r *Request) checkProcess() error {
	switch {
	case r.PID < 0:
		return fmt.Errorf("pid: %d is negative", r.PID)
	case r.PID == 0 && r.Event == EventAttach:
		return errors.New("pid: missing")
	case r.MoM != nil && r.MoM.PID <= 0:
		return fmt.Errorf("mom.pid: %d is no process", r.MoM.PID)
	}
	return checkEnv("env", r.Env)
}

// check rejects values that no job can have; path is the job's place in the event.
func (j *Job) check(path string) error {
	if j.ID == "" {
		return fmt.Errorf("%s.id: missing", path)
	}
	if err := CheckJobID(j.ID); err != nil {
		return fmt.Errorf("%s.id: %w", path, err)
	}
	for _, number := range []struct {
		key           string
		value, lowest int64
	}{
		{"owner.uid", int64(j.Owner.UID), -1},
		{"owner.gid", int64(j.Owner.GID), -1},
		{"session_id", int64(j.SessionID), 0},
		{"run_count", int64(j.RunCount), 0},
		{"run_version", int64(j.RunVersion), 0},
	} {
		if number.value < number.lowest || number.value >= math.MaxUint32 {
			return fmt.Errorf("%s.%s: %d is out of range", path, number.key, number.value)
		}
	}
	if strings.ContainsAny(j.Owner.User, "/\n:") {
		return fmt.Errorf("%s.owner.user: %q is not a user's name", path, j.Owner.User)
	}
	if j.KillDelay != nil && *j.KillDelay < 0 {
		return fmt.Errorf("%s.job_kill_delay: %d is negative", path, *j.KillDelay)
	}
	return nil
}

// dropForeign removes what an event from outside may not set, and returns the keys. These are
// hooks' state, how long a job has run, and whether a list is complete. It also removes a job from
// an event of the host and a list from an event of a job.
func (r *Request) dropForeign() []string {
	var dropped []string
	if r.Event.ForJob() {
		if r.JobList != nil {
			r.JobList = nil
			dropped = append(dropped, "job_list")
		}
	} else if r.Job != nil {
		r.Job = nil
		dropped = append(dropped, "job")
	}
	if r.Partial {
		r.Partial = false
		dropped = append(dropped, "partial")
	}
	if r.Job != nil {
		dropped = append(dropped, r.Job.dropForeign("job")...)
	}
	for id, job := range r.JobList {
		dropped = append(dropped, job.dropForeign("job_list."+strconv.Quote(id))...)
	}
	return dropped
}

func (j *Job) dropForeign(path string) (dropped []string) {
	if j.State != nil {
		j.State = nil
		dropped = append(dropped, path+".hook_state")
	}
	if j.Elapsed != 0 {
		j.Elapsed = 0
		dropped = append(dropped, path+".elapsed")
	}
	return dropped
}

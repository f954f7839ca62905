package hostapi

import (
	"bytes"
	"cmp"
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
// this way. If event is "", the JSON names it. Unknown keys are ignored.
//
// Every error is one short line, of KindJob, and names the key. A request is refused if it is not a
// JSON object, if a value is of the wrong type, or if it contradicts event. A missing job or
// job.id, an id that CheckJobID refuses, and a NUL byte in a string are errors. So is a request of
// more than limit bytes (0 means RequestLimit).
//
// If a key occurs twice, the last one counts, as in encoding/json. Keys that only the host may set,
// such as hook_state, are decoded: the host does not use them.
func DecodeRequest(event string, r io.Reader, limit int64) (*Request, error) {
	if limit <= 0 {
		limit = RequestLimit
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, Errorf(KindJob, "read event: %w", err)
	}
	if int64(len(text)) > limit {
		return nil, Errorf(KindJob, "event: larger than %d bytes", limit)
	}
	req, err := parseRequest(text)
	if err == nil {
		err = req.fit(event)
	}
	if err != nil {
		if text := err.Error(); len(text) > maxProblem {
			err = errors.New(Clip(text, maxProblem))
		}
		return nil, &Error{Kind: KindJob, Err: err}
	}
	return req, nil
}

func parseRequest(text []byte) (*Request, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("event: empty")
	}
	req := new(Request)
	err := json.Unmarshal(text, req)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("event: not JSON: line %d: %w", lineAt(text, syntax.Offset-1), syntax)
	}
	if whole := bytes.TrimSpace(text); whole[0] != '{' {
		return nil, fmt.Errorf("event: want a JSON object, got %.20q", whole)
	}
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, wrongType(bad)
	}
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if escapesNUL(text) {
		return nil, errors.New("event: a string holds a NUL byte")
	}
	return req, nil
}

// escapesNUL reports whether a string in valid JSON holds a NUL byte. JSON allows it only as an
// escape. A backslash that is escaped itself begins none.
func escapesNUL(text []byte) bool {
	nul := []byte(`\u0000`)
	return bytes.Contains(text, nul) && bytes.Contains(bytes.ReplaceAll(text, []byte(`\\`), nil), nul)
}

// fit checks that the request matches the named event and has what the event needs. It removes a
// list from an event of a job, and a job from an event of the host.
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
		r.JobList = nil
		if r.Job == nil {
			return errors.New("job: missing")
		}
		return r.Job.check("job")
	}
	r.Job = nil
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

// wrongType rephrases an error of encoding/json in terms of JSON's types.
func wrongType(e *json.UnmarshalTypeError) error {
	want, got := kindOf(e.Type), e.Value
	if number, isNumber := strings.CutPrefix(got, "number "); isNumber {
		want, got = fmt.Sprintf("whole number of %d bits", e.Type.Bits()), number
	}
	if got == "bool" {
		got = "boolean"
	}
	return fmt.Errorf("%s: want %s, got %s", cmp.Or(e.Field, "the whole text"), want, got)
}

// kindOf returns the kind of JSON value that a type needs.
func kindOf(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.Struct, kind == reflect.Map:
		return "object"
	case kind == reflect.String, kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "string"
	case kind == reflect.Slice, kind == reflect.Array:
		return "array"
	case kind == reflect.Bool:
		return "boolean"
	}
	return "number"
}

package pbs

import (
	"strconv"
	"strings"
	"time"
)

// IsRecord reports whether a line has the form of any record in PBS's accounting files.
func IsRecord(line string) bool {
	date, rest, _ := strings.Cut(line, ";")
	_, err := time.Parse("01/02/2006 15:04:05", date)
	return err == nil && strings.Count(rest, ";") >= 2
}

// ParseRun returns the run of a job that has ended, from a line of the server's accounting:
//
//	11/29/2026 01:25:14;E;12.srv;user=alice jobname=train queue=workq start=1795915512 ...
//
// E is the last run, R one that was requeued. ok is false for any other line, and for that of a job
// array, whose subjobs have lines of their own. Users choose some of the values, and PBS does not
// escape them. So a field that comes twice with different values is ignored.
func ParseRun(line string) (s JobStatus, ok bool) {
	parts := strings.SplitN(line, ";", 4)
	if len(parts) != 4 || parts[1] != "E" && parts[1] != "R" || strings.Contains(parts[2], "[]") {
		return s, false
	}
	fields := accountingFields(parts[3])
	s = JobStatus{
		ID: parts[2], State: "F", Name: fields["jobname"], User: fields["user"], Queue: fields["queue"],
		Project: fields["project"], Account: fields["account"], ExecHost: fields["exec_host"],
		ExecVnode: fields["exec_vnode"], Start: seconds(fields["start"]), End: seconds(fields["end"]),
		ResourceList: map[string]string{}, ResourcesUsed: map[string]string{},
	}
	if s.End.IsZero() {
		return s, false
	}
	s.SessionID, _ = strconv.Atoi(fields["session"])
	s.RunCount, _ = strconv.Atoi(fields["run_count"])
	if n, err := strconv.Atoi(fields["Exit_status"]); err == nil {
		s.ExitStatus = &n
	}
	for key, value := range fields {
		if name, is := strings.CutPrefix(key, "Resource_List."); is {
			s.ResourceList[name] = value
		}
		if name, is := strings.CutPrefix(key, "resources_used."); is {
			s.ResourcesUsed[name] = value
		}
	}
	return s, true
}

// accountingFields returns the fields KEY=VALUE of a record. A value with blanks is in double or
// single quotes, which end before a blank (src/server/accounting.c, cpy_quote_value).
func accountingFields(text string) map[string]string {
	fields, twice := map[string]string{}, map[string]bool{}
	for text != "" {
		key, rest, found := strings.Cut(text, "=")
		if !found {
			break
		}
		if at := strings.LastIndexByte(key, ' '); at >= 0 { // the rest of a value that was not quoted as it should be
			key = key[at+1:]
		}
		var value string
		value, text = accountingValue(rest)
		if other, is := fields[key]; is && other != value {
			twice[key] = true
		}
		fields[key] = value
	}
	for key := range twice {
		delete(fields, key)
	}
	return fields
}

// accountingValue cuts the first value off text.
func accountingValue(text string) (value, rest string) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		if value, rest, found := strings.Cut(text[1:], text[:1]+" "); found {
			return value, rest
		}
		if value, closed := strings.CutSuffix(text[1:], text[:1]); closed {
			return value, ""
		}
	}
	value, rest, _ = strings.Cut(text, " ")
	return value, rest
}

// seconds returns the time of seconds since 1970, zero for another text and for 0.
func seconds(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

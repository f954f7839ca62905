package api

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// Everybody reads the reports of own finished jobs, root of all; a list that is not whole is an error.
func TestReports(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", os.Getuid()), job("2.srv", nobody), job("3.srv", -1)}}
	socket := serve(t, b)
	list := func() (text string, err error) {
		err = dial(t, socket).Reports(t.Context(), func(report json.RawMessage) bool { text += string(report); return true })
		return text, err
	}
	const all = `{"job":"1.srv"}{"job":"2.srv"}{"job":"3.srv"}`
	if text, err := list(); err != nil || os.Getuid() == 0 && text != all || !strings.HasPrefix(text, `{"job":"1.srv"}`) {
		t.Errorf("Reports = %s, %v, want %s", text, err, all)
	}
	b.broken = errors.New("disk")
	if text, err := list(); err == nil {
		t.Errorf("Reports of a broken ledger = %s, want an error", text)
	}
	b.jobs = nil
	if _, err := list(); !isStatus(err, 500) {
		t.Errorf("Reports of a ledger that cannot be read: %v, want status 500", err)
	}
	b.broken = nil
	if text, err := list(); err != nil || text != "" {
		t.Errorf("no reports: %q, %v", text, err)
	}
	b.jobs = []Job{job("1.srv", 0), job("2.srv", nobody)}
	if got := callAs(t, nobody, socket, "GET", "/v1/reports", ""); got.Status != 200 || got.Body != "{\"job\":\"2.srv\"}\n" {
		t.Errorf("uid %d reads %+v, want the own one", nobody, got)
	}
}

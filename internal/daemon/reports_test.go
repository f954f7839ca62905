package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
)

func TestDamageOfTheLedgerIsLoggedOnceHoweverItIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := ledger.Open(path)
	for _, job := range []string{"1.srv", "2.srv", "3.srv", "4.srv", "5.srv"} {
		must.NoError(t, l.Append(t.Context(), job, 1000, map[string]string{"job": job, "end": "2026-03-01T12:00:00Z"}))
	}
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	damaged := strings.NewReplacer(`"job":"2.srv","uid"`, `"job":"2.srv","UID"`,
		`"job":"4.srv","uid"`, `"job":"4.srv","UID"`)
	must.NoError(t, os.WriteFile(path, []byte(damaged.Replace(string(text))), 0o600))

	var logged strings.Builder
	log := logrus.New()
	log.SetOutput(&logged)
	j := &jobs{ledger: l, log: logrus.NewEntry(log)}
	for range 3 {
		for _, limit := range []int{2, 0} { // the newest two come to one damaged line
			err := j.Find(t.Context(), report.Filter{Limit: limit}, func(int) bool { return true },
				func(json.RawMessage) bool { return true })
			if limit == 0 && !errors.Is(err, api.ErrDamaged) {
				t.Errorf("all: %v", err)
			}
		}
	}
	if lines := strings.Count(logged.String(), "\n"); lines > 2 {
		t.Errorf("%d lines:\n%s", lines, logged.String())
	}
}

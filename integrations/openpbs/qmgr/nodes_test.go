package qmgr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/must"
)

func TestNodesThatTheHookDoesNotReachAreNamed(t *testing.T) {
	home := t.TempDir()
	tracking := filepath.Join(home, openpbs.Tracking)
	must.NoError(t, os.MkdirAll(filepath.Dir(tracking), 0o755))
	const text = "n1:15002 hookhost 3 12\nn2:15002 hookhost 1 12\nn3:15002 hookhost 0 12\n"
	must.NoError(t, os.WriteFile(tracking, []byte(text), 0o600))
	var said strings.Builder
	r := &Registrar{ErrOut: &said, Conf: func() (map[string]string, error) {
		return map[string]string{"PBS_HOME": home}, nil
	}}
	must.NoError(t, r.confirmedWithin(time.Second/4, "hookhost", "Hook hookhost"))
	must.Equal(t, "standard error", "Hook hookhost is on its way to n1, n2.\nHook hookhost has not reached n1, n2 "+
		"within 0.25 s. The server keeps trying. Until then nothing changes there.\n", said.String())
}

func TestNodesAreWaitedForWhileTheServerWritesTheFileAnew(t *testing.T) {
	const sent, pending = "n1:15002 hookhost 0 12\n", "n1:15002 hookhost 0 12\nn1:15002 hookhost 4 13\n"
	texts := []string{"", pending, "", pending, sent, sent}
	var said strings.Builder
	r := &Registrar{ErrOut: &said}
	must.NoError(t, r.await(time.Minute, "hookhost", "Hook hookhost", func() ([]byte, error) {
		text := texts[0]
		texts = texts[1:]
		return []byte(text), nil
	}))
	must.Equal(t, "readings left", 0, len(texts))
	must.Equal(t, "standard error", "Hook hookhost is on its way to n1.\n", said.String())
}

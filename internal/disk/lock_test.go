package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

func TestLockWaitsForItsHolderNoLongerThanItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		must.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	must.NoError(t, Lock(t.Context(), int(first.Fd())))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := Lock(ctx, int(second.Fd())); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is held: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- Lock(t.Context(), int(second.Fd())) }()
	must.NoError(t, first.Close())
	if err := <-waiting; err != nil {
		t.Errorf("after its holder: %v", err)
	}
}

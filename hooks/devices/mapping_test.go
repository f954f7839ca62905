package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

func readMapping(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must.NoError(t, err)
		files[e.Name()] = string(b)
	}
	return files
}

func TestMappingFilesNameTheJobsOfEachGPU(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "map")
	m := newMappingDir(dir, t.TempDir())
	amd := topology.Device{Vendor: "amd", Index: 5}
	holds := func(d ...topology.Device) *inventory.Grant { return &inventory.Grant{Devices: d} }
	steps := []struct {
		name string
		do   func() error
		want map[string]string
	}{
		{"a GPU, a MIG instance and one of AMD", func() error {
			return m.write(t.Context(), "1.srv",
				holds(a100(3), migInstance(), amd))
		}, map[string]string{"3": "1.srv\n", "0.3": "1.srv\n"}},
		{"again", func() error { return m.write(t.Context(), "1.srv", holds(a100(3), migInstance())) },
			map[string]string{"3": "1.srv\n", "0.3": "1.srv\n"}},
		{"another job shares it", func() error { return m.write(t.Context(), "2.srv", holds(a100(3))) },
			map[string]string{"3": "1.srv\n2.srv\n", "0.3": "1.srv\n"}},
		{"resize", func() error { return m.write(t.Context(), "1.srv", holds(a100(4), migInstance())) },
			map[string]string{"3": "2.srv\n", "4": "1.srv\n", "0.3": "1.srv\n"}},
		{"what others write stays", func() error {
			return os.WriteFile(filepath.Join(dir, "README"), []byte("9.srv\n"), 0o644)
		}, map[string]string{"3": "2.srv\n", "4": "1.srv\n", "0.3": "1.srv\n", "README": "9.srv\n"}},
		{"sweep", func() error {
			if err := os.WriteFile(filepath.Join(dir, "7"), []byte("8.srv\n8.srv\nfree text\n\n"), 0o644); err != nil {
				return err
			}
			return m.sweep(t.Context(), func() (map[string]bool, error) { return map[string]bool{"1.srv": true}, nil })
		}, map[string]string{"4": "1.srv\n", "0.3": "1.srv\n", "7": "free text\n", "README": "9.srv\n"}},
		{"end", func() error { return m.remove(t.Context(), "1.srv") },
			map[string]string{"7": "free text\n", "README": "9.srv\n"}},
		{"end again", func() error { return m.remove(t.Context(), "1.srv") },
			map[string]string{"7": "free text\n", "README": "9.srv\n"}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		must.Equal(t, s.name, s.want, readMapping(t, dir))
	}
	if err := newMappingDir("", t.TempDir()).write(t.Context(), "1.srv", holds(a100(0))); err != nil {
		t.Errorf("without a directory: %v", err)
	}
}

// Jobs that begin and end concurrently do not lose each other's entries.
func TestMappingAtOnce(t *testing.T) {
	m := newMappingDir(t.TempDir(), t.TempDir())
	g := &inventory.Grant{Devices: []topology.Device{a100(0)}}
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			id := fmt.Sprintf("%d.srv", i)
			if err := m.write(t.Context(), id, g); err != nil {
				t.Error(err)
			}
			if i > 0 {
				if err := m.remove(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	must.Equal(t, "", map[string]string{"0": "0.srv\n"}, readMapping(t, m.dir))
}

// Anybody can lock the directory, but that does not block the hook. Only root can hold the real
// lock, and an event waits for it no longer than its time allows.
func TestMappingLock(t *testing.T) {
	m := newMappingDir(t.TempDir(), t.TempDir())
	g := &inventory.Grant{Devices: []topology.Device{a100(0)}}
	dir, err := os.Open(m.dir)
	must.NoError(t, err)
	defer dir.Close()
	must.NoError(t, unix.Flock(int(dir.Fd()), unix.LOCK_EX))
	if err := m.write(t.Context(), "1.srv", g); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(m.lock); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock: %v, %v, want mode 0600", info, err)
	}
	unlock, err := m.locked(t.Context())
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := m.remove(ctx, "1.srv"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is held: %v, want %v", err, context.DeadlineExceeded)
	}
	must.NoError(t, unlock())
	if err := m.remove(t.Context(), "1.srv"); err != nil {
		t.Error(err)
	}
}

package kernfs

import (
	"os"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// newFile makes a file in a tmpfs, with what the root of it is called.
func newFile(b *testing.B, text string) *FS {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "kernfs")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	must.NoError(b, os.MkdirAll(dir+"/memory/pbs_jobs/12", 0o755))
	must.NoError(b, os.WriteFile(dir+"/memory/pbs_jobs/12/file", []byte(text), 0o644))
	return openDir(b, dir, false)
}

func BenchmarkWrite(b *testing.B) {
	f := newFile(b, "")
	b.ReportAllocs()
	for b.Loop() {
		must.NoError(b, f.Write("memory/pbs_jobs/12/file", "67108864"))
	}
}

func BenchmarkReadFile(b *testing.B) {
	f := newFile(b, "9223372036854771712\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.ReadFile("memory/pbs_jobs/12/file"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMkdirRmdir(b *testing.B) {
	f := newFile(b, "")
	b.ReportAllocs()
	for b.Loop() {
		must.NoError(b, f.Mkdir("memory/pbs_jobs/12/job"))
		must.NoError(b, f.Rmdir("memory/pbs_jobs/12/job"))
	}
}

// BenchmarkMkdirRoot is what Mkdir replaces.
func BenchmarkMkdirRoot(b *testing.B) {
	k := newFile(b, "").backend.(*kernel)
	b.ReportAllocs()
	for b.Loop() {
		must.NoError(b, k.root.Mkdir("memory/pbs_jobs/12/job", 0o755))
		must.NoError(b, k.root.Remove("memory/pbs_jobs/12/job"))
	}
}

func BenchmarkParseIDSet(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseIDSet("0-63,128-191"); err != nil {
			b.Fatal(err)
		}
	}
}

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/must"
)

func TestHugePages(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/huge-pages.txtar")
	must.NoError(t, err)
	roots := openTree(t, archive)
	got, err := ScanHugePages(roots)
	const mb2, gb1 = 2 << 20, 1 << 30
	if want := (HugePages{Default: mb2, Total: map[int64]int64{mb2: 512 * mb2, gb1: gb1}}); err != nil ||
		!cmp.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for node, want := range []map[int64]int64{{mb2: 384 * mb2, gb1: 0}, {mb2: 128 * mb2, gb1: gb1}, nil} {
		if got, err := NUMAHugePages(roots.Sys, node); err != nil || !cmp.Equal(got, want) {
			t.Errorf("node %d: %v, %v, want %v", node, got, err, want)
		}
	}
}

func TestHugePagesErrors(t *testing.T) {
	for _, text := range []string{"-1", "x", "9223372036854775807"} {
		roots := openTree(t, txtar.Parse([]byte("-- proc/meminfo --\nHugepagesize: 2048 kB\n-- "+
			"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages --\n"+text+"\n")))
		if got, err := ScanHugePages(roots); err == nil {
			t.Errorf("nr_hugepages %s: %+v, want an error", text, got)
		}
	}
}

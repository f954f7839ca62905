package devfilter

import (
	"path"
	"testing"

	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/must"
)

// usual is about what a job with one GPU may open.
func usual(b *testing.B) (one, other []devrule.Rule) {
	b.Helper()
	base, _, err := devrule.Resolve(devrule.Base(true), devrule.Nodes("/dev"))
	must.NoError(b, err)
	with := func(texts ...string) []devrule.Rule {
		return append(base[:len(base):len(base)], mustRules(b, texts...)...)
	}
	return with("c 195:0 rw", "c 195:255 rw", "c 510:0 rw"), with("c 195:1 rw", "c 195:255 rw", "c 510:0 rw")
}

func BenchmarkCompile(b *testing.B) {
	one, _ := usual(b)
	b.ReportAllocs()
	for b.Loop() {
		Compile(one)
	}
}

func BenchmarkV1(b *testing.B) { benchmark(b, worldV1(b)) }
func BenchmarkV2(b *testing.B) { benchmark(b, worldV2(b)) }

func benchmark(b *testing.B, w world) {
	one, other := usual(b)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			p, dir := w.job(b)
			b.StartTimer()
			must.NoError(b, Install(p, one))
			b.StopTimer()
			must.NoError(b, w.tree.Rmdir(path.Base(dir.Path("."))))
			b.StartTimer()
		}
	})
	b.Run("change", func(b *testing.B) {
		p, _ := w.job(b)
		for i := 0; b.Loop(); i++ {
			must.NoError(b, Install(p, [][]devrule.Rule{one, other}[i%2]))
		}
	})
	b.Run("the same", func(b *testing.B) {
		p, _ := w.job(b)
		for b.Loop() {
			must.NoError(b, Install(p, one))
		}
	})
	b.Run("in force", func(b *testing.B) {
		p, _ := w.job(b)
		must.NoError(b, Install(p, one))
		for b.Loop() {
			must.NoError(b, InForce(p, one))
		}
	})
}

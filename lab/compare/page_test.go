package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// TestPageIsWhatTheFiguresMake fails if docs/comparison.md or a plot was changed by hand, or the
// template without `go run ./lab/compare -write`.
func TestPageIsWhatTheFiguresMake(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	files, err := files(docs)
	must.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(docs, name))
		must.NoError(t, err)
		must.Equal(t, "docs/"+name, string(want), string(got))
	}
}

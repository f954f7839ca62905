package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func TestContainerEngineIsReported(t *testing.T) {
	program := filepath.Join(t.TempDir(), "engine")
	must.NoError(t, os.WriteFile(program, nil, 0o755))
	for _, tt := range []struct {
		name string
		edit func(*config.File)
		want string
	}{
		{"disabled", func(f *config.File) { f.Container.Enabled = false }, ""},
		{"there", func(f *config.File) { f.Container.Engine = config.Charliecloud }, program},
		{"not there", func(f *config.File) { f.Container.Program = program + "2" },
			"engine2: no such file or directory: no job with -l container can begin"},
		{"a directory", func(f *config.File) { f.Container.Program = filepath.Dir(program) },
			" is not a program: no job with -l container"},
		{"fuse", func(*config.File) {}, "jobs may not open it, and apptainer mounts image files with it"},
	} {
		f := config.Default()
		f.Container.Enabled, f.Container.Program = true, program
		tt.edit(f)
		var all []string
		for _, finding := range examineContainers(f) {
			all = append(all, finding.Found)
		}
		if got := strings.Join(all, "; "); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

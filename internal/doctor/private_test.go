package doctor

import (
	"os"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
)

func TestPrivateDirectoriesAreExamined(t *testing.T) {
	proc, err := procfs.NewDefaultFS()
	must.NoError(t, err)
	for private, want := range map[config.Private][]Status{
		{}: nil, {TMP: true}: {OK}, {TMP: true, TMPSize: 1 << 20}: {OK},
	} {
		k := &kernel{cfg: &config.File{Private: private}}
		var got []Status
		for _, f := range k.examinePrivate(proc, 0) {
			got = append(got, f.Status)
		}
		must.Equal(t, "findings", want, got)
	}
	if f := examineTmp(config.Private{TMP: true}, false, true); f.Status != Impossible || !f.Blocks {
		t.Errorf("another mount namespace: %+v", f)
	}
	if same, known := sameMounts(proc, os.Getpid(), os.Getpid()); !same || !known {
		t.Errorf("one process: %t, %t", same, known)
	}
	if _, known := sameMounts(proc, 0, os.Getpid()); known {
		t.Error("without a daemon its namespace is not known")
	}
}

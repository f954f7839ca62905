package plugin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

func TestLinesOfAHookBecomeEntries(t *testing.T) {
	tests := []struct{ name, in, want, words string }{
		{name: "plain", in: "hello\nworld", want: "level=info msg=hello hook=h|level=info msg=world hook=h"},
		{name: "blank", in: "\n \n\r\n", want: ""},
		{name: "hclog", in: `{"@level":"warn","@message":"m","@timestamp":"t","job":"1.srv","n":2}` + "\n",
			want: "level=warning msg=m hook=h job=1.srv n=2"},
		{name: "another name", in: `{"@level":"info","@message":"m","hook":"other"}` + "\n",
			want: "level=info msg=m hook=h"},
		{name: "no worse than an error", in: `{"@level":"fatal","@message":"m"}` + "\n",
			want: "level=error msg=m hook=h"},
		{name: "other JSON", in: `{"level":"info"}` + "\n", want: `level=info msg="{\"level\":\"info\"}" hook=h`},
		{name: "broken JSON", in: `{"@level":"info"` + "\n", want: `level=info msg="{\"@level\":\"info\"" hook=h`},
		{name: "trace is not enabled", in: `{"@level":"trace","@message":"m"}` + "\n", want: ""},
		{name: "panic", in: "before\npanic: boom\n\ngoroutine 1 [running]:\n", words: "panic: boom",
			want: `level=info msg=before hook=h|level=error msg="panic: boom" hook=h|level=error msg="goroutine 1 [running]:" hook=h`},
		{name: "not text", in: "\xff\n", want: `level=info msg="?" hook=h`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1000} {
				var b bytes.Buffer
				l := newTestLines(&b)
				for in := tt.in; in != ""; {
					n := min(size, len(in))
					l.Write([]byte(in[:n]))
					in = in[n:]
				}
				l.Write([]byte("\n")) // ends the last line
				if got := strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "|"); got != tt.want {
					t.Errorf("in pieces of %d: %s\nwant %s", size, got, tt.want)
				}
				if got := l.lastWords(); got != tt.words {
					t.Errorf("last words %q, want %q", got, tt.words)
				}
			}
		})
	}
}

func newTestLines(b *bytes.Buffer) *lines {
	log := logrus.New()
	log.SetOutput(b)
	log.SetLevel(logrus.DebugLevel)
	log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
	return &lines{log: log.WithField("hook", "h"), plain: logrus.InfoLevel}
}

// Whatever a hook writes, one entry stays within bounds and nothing panics.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"@level":"info","@message":"m","k":{"a":[1]}}` + "\nplain\npanic: x\n"))
	f.Add([]byte(strings.Repeat("x", maxLine+1)))
	f.Fuzz(func(t *testing.T, in []byte) {
		var b bytes.Buffer
		l := newTestLines(&b)
		l.Write(in)
		l.Write([]byte("\n")) // ends the last line
		for line := range strings.Lines(b.String()) {
			if len(line) > 8*maxLine {
				t.Fatalf("an entry of %d bytes", len(line))
			}
		}
	})
}

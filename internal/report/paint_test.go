package report

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// painter writes the style of a text around it.
type painter struct{ bytes.Buffer }

func (p *painter) Paint(style Style, text string) error {
	_, err := fmt.Fprintf(p, "<%d %s>", style, text)
	return err
}

func TestJobThatDidNotEndWellStandsOut(t *testing.T) {
	bad, good := fromRecord(cases["leaking"], begun.Add(time.Hour)), fromRecord(cases["steady"], begun.Add(time.Hour))
	list := List{Columns: []string{"job", "state"}}.Table(begun)
	for r, want := range map[*Report]string{bad: "102.srv  <1 oom>\n", good: "101.srv  ok\n"} {
		var p painter
		must.NoError(t, list(&p, slices.Values([]*Report{r})))
		must.Equal(t, "a row", "JOB      STATE\n"+want, p.String())

		p.Reset()
		var plain bytes.Buffer
		must.NoError(t, r.WriteText(&p), r.WriteText(&plain))
		styled := bytes.Contains(p.Bytes(), []byte("Outcome   <1 out of memory: "))
		must.Equal(t, "the outcome of the report", r == bad, styled)
		without := bytes.ReplaceAll(bytes.ReplaceAll(p.Bytes(), []byte("<1 "), nil), []byte(">\n"), []byte("\n"))
		must.Equal(t, "the text is the same", plain.String(), string(without))
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// A person sees which packages and slow tests run and what failed; the log has everything.
func TestProgressNamesPackagesSlowTestsAndFailures(t *testing.T) {
	const events = `{"Action":"start","Package":"github.com/hookhost/hookhost/a"}
{"Action":"run","Package":"github.com/hookhost/hookhost/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/hookhost/hookhost/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"run","Package":"b","Test":"TestTwo"}
{"Action":"output","Package":"b","Test":"TestTwo","Output":"two_test.go:1: wrong\n"}
WAIT
{"Action":"fail","Package":"b","Test":"TestTwo"}
{"Action":"run","Package":"b","Test":"TestThree"}
{"Action":"output","Package":"b","Test":"TestThree","Output":"panic: test timed out\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.1s\n"}
{"Action":"fail","Package":"b"}
{"Action":"build-output","ImportPath":"c","Output":"c.go:1: syntax error\n"}
no event
{"Action":"pass","Package":"github.com/hookhost/hookhost/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/hookhost/hookhost/a","Output":"PASS\n"}
{"Action":"output","Package":"github.com/hookhost/hookhost/a","Output":"ok  \ta\t11s\n"}
{"Action":"pass","Package":"github.com/hookhost/hookhost/a"}
{"Action":"output","Package":"d","Output":"?   \td\t[no test files]\n"}
{"Action":"skip","Package":"d"}
`
	var to, log strings.Builder
	clock := time.Unix(0, 0)
	p := &progress{to: &to, log: &log, now: func() time.Time { return clock }, packages: map[string]*pkg{}}
	before, after, _ := strings.Cut(events, "WAIT\n")
	for line := range strings.Lines(before) {
		must.NoError(t, p.follow(decoded([]byte(line))))
	}
	p.printSlow()
	clock = clock.Add(slow)
	for range 2 {
		p.printSlow()
	}
	must.NoError(t, p.read(strings.NewReader(after)))
	printed := strings.Split(to.String(), "\n")
	if len(printed) > 4 && strings.Contains(printed[2], "b TestTwo") { // the two are named in any order
		printed[2], printed[3] = printed[3], printed[2]
	}
	must.Equal(t, "printed", `begin	a
begin	b
runs	a TestOne: 10s so far
runs	b TestTwo: 10s so far
two_test.go:1: wrong
fail	b TestTwo after 10s
panic: test timed out
FAIL	b	0.1s
c.go:1: syntax error
no event
pass	a TestOne after 10s
ok  	a	11s
`, strings.Join(printed, "\n"))
	must.Equal(t, "log", `two_test.go:1: wrong
panic: test timed out
FAIL	b	0.1s
c.go:1: syntax error
no event
=== RUN   TestOne
PASS
ok  	a	11s
?   	d	[no test files]
`, log.String())
}

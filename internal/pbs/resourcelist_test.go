package pbs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestParseResourceList(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want Request
		err  string
	}{
		{name: "nothing", want: Request{[]Chunk{{1, res{"ncpus": "1"}}}, res{"ncpus": "1"}}},
		{
			name: "select and walltime", args: []string{"select=1:ncpus=2:mem=64mb", "walltime=00:10:00"},
			want: Request{[]Chunk{{1, res{"ncpus": "2", "mem": "64mb"}}},
				res{"ncpus": "2", "mem": "64mb", "walltime": "00:10:00"}},
		},
		{
			name: "comma after select", args: []string{"select=1:ncpus=1,walltime=10"},
			want: Request{[]Chunk{{1, res{"ncpus": "1"}}}, res{"ncpus": "1", "walltime": "10"}},
		},
		{
			// PBS made Resource_List.mem=130mb, ncpus=2 of it.
			name: "captured two chunks", args: []string{"select=1:ncpus=1:mem=60mb+1:ncpus=1:mem=70mb"},
			want: Request{
				[]Chunk{{1, res{"ncpus": "1", "mem": "60mb"}}, {1, res{"ncpus": "1", "mem": "70mb"}}},
				res{"ncpus": "2", "mem": "130mb"},
			},
		},
		{
			name: "sums", args: []string{"select=2:ncpus=4:mem=1gb:ngpus=1:ompthreads=4+1:mem=512mb:host=n1"},
			want: Request{
				[]Chunk{{2, res{"ncpus": "4", "mem": "1gb", "ngpus": "1", "ompthreads": "4"}},
					{1, res{"ncpus": "1", "mem": "512mb", "host": "n1"}}},
				res{"ncpus": "9", "mem": "2560mb", "ngpus": "2"},
			},
		},
		{
			name: "words and bytes", args: []string{"select=mem=1kw+mem=100"},
			want: Request{[]Chunk{{1, res{"ncpus": "1", "mem": "1kw"}}, {1, res{"ncpus": "1", "mem": "100"}}},
				res{"ncpus": "2", "mem": "8292b"}},
		},
		{
			name: "old form", args: []string{"ncpus=2,mem=64mb", "walltime=3"},
			want: Request{[]Chunk{{1, res{"ncpus": "2", "mem": "64mb"}}},
				res{"ncpus": "2", "mem": "64mb", "walltime": "3"}},
		},
		{
			name: "old form without ncpus", args: []string{"mem=64mb"},
			want: Request{[]Chunk{{1, res{"ncpus": "1", "mem": "64mb"}}}, res{"ncpus": "1", "mem": "64mb"}},
		},
		{
			name: "only job-wide", args: []string{"walltime=5,software=x,cput=1:00"},
			want: Request{[]Chunk{{1, res{"ncpus": "1"}}},
				res{"ncpus": "1", "walltime": "5", "software": "x", "cput": "1:00"}},
		},
		{
			name: "site's own", args: []string{"select=1:ncpus=1", "licenses=3"},
			want: Request{[]Chunk{{1, res{"ncpus": "1"}}}, res{"ncpus": "1", "licenses": "3"}},
		},
		{
			name: "warning signals", args: []string{"walltime=60,walltime_signal=B:USR1@30+HUP@10", "soft_walltime=30",
				"min_walltime=10", "max_walltime=1:00"},
			want: Request{[]Chunk{{1, res{"ncpus": "1"}}},
				res{"ncpus": "1", "walltime": "60", "walltime_signal": "B:USR1@30+HUP@10",
					"soft_walltime": "30", "min_walltime": "10", "max_walltime": "1:00"}},
		},
		{
			name: "place", args: []string{"select=1", "place=scatter:excl:group=rack"},
			want: Request{[]Chunk{{1, res{"ncpus": "1"}}}, res{"ncpus": "1"}},
		},
		{
			name: "place of sharing alone", args: []string{"place=exclhost"},
			want: Request{[]Chunk{{1, res{"ncpus": "1"}}}, res{"ncpus": "1"}},
		},
		{
			name: "quoted comma", args: []string{`select=1:note="a,b",walltime=1`},
			want: Request{[]Chunk{{1, res{"ncpus": "1", "note": "a,b"}}}, res{"ncpus": "1", "walltime": "1"}},
		},
		{
			name: "quoted select", args: []string{`select="1:ncpus=3"`},
			want: Request{[]Chunk{{1, res{"ncpus": "3"}}}, res{"ncpus": "3"}},
		},
		{
			name: "spaces", args: []string{" SELECT = 1:ncpus=3 , Walltime = 4 "},
			want: Request{[]Chunk{{1, res{"ncpus": "3"}}}, res{"ncpus": "3", "walltime": "4"}},
		},

		{name: "bad size", args: []string{"ncpus=2,mem=banana"}, err: "resource mem=banana: not a size"},
		{name: "bad size in select", args: []string{"select=1:mem=banana"},
			err: "select: resource mem=banana: not a size"},
		{name: "no memory", args: []string{"mem=0"}, err: "resource mem=0: not more than 0"},
		{name: "bad walltime", args: []string{"walltime=later"},
			err: "resource walltime=later: not a duration ([[HH:]MM:]SS[.ms])"},
		{name: "bad soft_walltime", args: []string{"soft_walltime=later"},
			err: "resource soft_walltime=later: not a duration ([[HH:]MM:]SS[.ms])"},
		{name: "negative walltime", args: []string{"walltime=-3"},
			err: "resource walltime=-3: not a duration ([[HH:]MM:]SS[.ms])"},
		{name: "mixed forms", args: []string{"select=1:ncpus=1", "mem=1gb"},
			err: "resource mem=1gb: cannot be used with select or place"},
		{name: "place with old form", args: []string{"ncpus=2,place=free"},
			err: "resource ncpus=2: cannot be used with select or place"},
		{name: "twice", args: []string{"walltime=1", "walltime=2"}, err: "resource walltime=2: given twice"},
		{name: "select twice", args: []string{"select=1", "select=2"}, err: "resource select=2: given twice"},
		{name: "no value", args: []string{"walltime"}, err: "resource walltime: no value"},
		{name: "empty argument", args: []string{""}, err: "a resource is missing"},
		{name: "trailing comma", args: []string{"ncpus=1,"}, err: "a resource is missing"},
		{name: "open quote", args: []string{`select=1:a="b`}, err: `resource list select=1:a="b: unbalanced quotes`},
		{name: "nodes", args: []string{"nodes=2:ppn=4"},
			err: "resource nodes=2:ppn=4: not supported: use select, as in select=1:ncpus=1"},
		{name: "bad place", args: []string{"place=near"}, err: `resource place=near: "near" is not a placement`},
		{name: "empty place field", args: []string{"place=free:"}, err: `resource place=free:: "" is not a placement`},
		{name: "place twice", args: []string{"place=free:pack"},
			err: `resource place=free:pack: "pack" contradicts an earlier field`},
		{name: "place without group", args: []string{"place=group="},
			err: `resource place=group=: "group=" is not a placement`},
		{name: "too many chunks", args: []string{"select=1000000000:ncpus=1"},
			err: "select: chunk 1000000000:ncpus=1: more than 100000 chunks"},
		{name: "sum overflows", args: []string{"select=2:mem=8191pb"},
			err: "resource mem=8191pb: the sum is too large"},
		{name: "sum of chunks overflows", args: []string{"select=mem=8191pb+mem=8191pb"},
			err: "resource mem=8191pb: the sum is too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseResourceList(tt.args...)
			if message(err) != tt.err {
				t.Errorf("error %q, want %q", message(err), tt.err)
			}
			must.Equal(t, "request", tt.want, got)
		})
	}
}

func FuzzParseResourceList(f *testing.F) {
	for _, seed := range []string{
		"select=1:ncpus=2:mem=64mb,walltime=00:10:00", "ncpus=2,mem=64mb", "place=scatter:excl", `select="1:ncpus=3"`,
		"select=2:mem=8191pb", "nodes=1", `select=1:a="b,c"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		req, err := ParseResourceList(text)
		if err != nil {
			must.Equal(t, fmt.Sprintf("ParseResourceList(%q) with an error", text), Request{}, req)
			checkOneLine(t, err)
			return
		}
		args := []string{"select=" + FormatSelect(req.Select)}
		for name, value := range req.Job {
			if !definitions[name].sum {
				args = append(args, name+"="+quoted(value))
			}
		}
		again, err := ParseResourceList(args...)
		if err != nil {
			t.Fatalf("%q -> %q: %v", text, args, err)
		}
		must.Equal(t, fmt.Sprintf("%q -> %q (-first +second)", text, strings.Join(args, " ")), req, again)
	})
}

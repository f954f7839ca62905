package pbs

import (
	"math"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Size
		err  string
	}{
		{text: "0", want: 0},
		{text: "0b", want: 0}, // resources_used.mem of a job that has just begun
		{text: "512", want: 512},
		{text: "512b", want: 512},
		{text: "1w", want: 8},
		{text: "1k", want: 1024},
		{text: "6504kb", want: 6504 * 1024},
		{text: "61440kb", want: 60 << 20},
		{text: "1KW", want: 8 << 10},
		{text: "64mb", want: 64 << 20},
		{text: "64MB", want: 64 << 20},
		{text: "2mW", want: 16 << 20},
		{text: "10gb", want: 10 << 30},
		{text: "1gw", want: 8 << 30},
		{text: "3tb", want: 3 << 40},
		{text: "7pb", want: 7 << 50},
		{text: "1pw", want: 8 << 50},
		{text: "007kb", want: 7 << 10},
		{text: "9223372036854775807", want: math.MaxInt64},
		{text: "8191pb", want: 8191 << 50},
		{text: "8192pb", err: "size 8192pb: too large"},
		{text: "1152921504606846976w", err: "size 1152921504606846976w: too large"},
		{text: "9223372036854775808", err: "size 9223372036854775808: too large"},
		{text: "99999999999999999999999kb", err: "size 99999999999999999999999kb: too large"},
		{text: "", err: "size : not a size"},
		{text: "banana", err: "size banana: not a size"},
		{text: "-1", err: "size -1: not a size"},
		{text: "+1", err: "size +1: not a size"},
		{text: "1.5gb", err: "size 1.5gb: not a size"},
		{text: "0x10", err: "size 0x10: not a size"},
		{text: "1bk", err: "size 1bk: not a size"},
		{text: "1kbb", err: "size 1kbb: not a size"},
		{text: "1kib", err: "size 1kib: not a size"},
		{text: "1eb", err: "size 1eb: not a size"},
		{text: "kb", err: "size kb: not a size"},
		{text: "1 kb", err: "size 1 kb: not a size"},
		{text: " 1kb", err: "size  1kb: not a size"},
		{text: "1kb\n", err: `size "1kb\n": not a size`},
		{text: "٣kb", err: "size ٣kb: not a size"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseSize(tt.text)
			if got != tt.want || message(err) != tt.err {
				t.Errorf("ParseSize(%q) = %d, %q, want %d, %q", tt.text, got, message(err), tt.want, tt.err)
			}
		})
	}
}

func TestSizeText(t *testing.T) {
	for _, tt := range []struct {
		size       Size
		string, kb string
	}{
		{0, "0kb", "0kb"},
		{1, "1b", "1kb"},
		{1023, "1023b", "1kb"},
		{1024, "1kb", "1kb"},
		{1025, "1025b", "2kb"},
		{64 << 20, "65536kb", "65536kb"},
		{math.MaxInt64, "9223372036854775807b", "9007199254740992kb"},
		{-1, "-1b", "0kb"},
	} {
		if tt.size.String() != tt.string || tt.size.KB() != tt.kb {
			t.Errorf("Size(%d): %q, %q, want %q, %q", int64(tt.size), tt.size.String(), tt.size.KB(), tt.string, tt.kb)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"0b", "102400kb", "64mb", "1kw", "8191pb", "banana", "9223372036854775807"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			if size != 0 {
				t.Errorf("ParseSize(%q) = %d with an error", text, size)
			}
			checkOneLine(t, err)
			return
		}
		if size < 0 {
			t.Errorf("ParseSize(%q) = %d", text, size)
		}
		b, err := size.MarshalText()
		must.NoError(t, err)
		var again Size
		if err := again.UnmarshalText(b); err != nil || again != size {
			t.Errorf("%q -> %d -> %q -> %d, %v", text, size, b, again, err)
		}
	})
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkOneLine fails the test when err cannot be logged on one line as it is.
func checkOneLine(t *testing.T, err error) {
	t.Helper()
	for _, c := range []byte(err.Error()) {
		if c < ' ' || c == 0x7f {
			t.Errorf("error %q has a control character", err)
			return
		}
	}
	if len(err.Error()) > 1000 {
		t.Errorf("error of %d bytes: %.80q...", len(err.Error()), err)
	}
}

func TestSizesForPeopleHaveThreeDigits(t *testing.T) {
	for size, want := range map[Size]string{
		-1: "-1 B", 0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1500: "1.46 KiB", 65536 << 10: "64 MiB",
		102760448: "98 MiB", 1 << 30: "1 GiB", 1<<30 + 1<<28: "1.25 GiB", 16 << 30: "16 GiB", 1<<30 - 1: "1 GiB",
		1023 << 20: "1023 MiB", 1<<20 - 600: "1023 KiB", 999 << 40: "999 TiB", 10<<30 - 1: "10 GiB",
		123<<30 + 400<<20: "123 GiB", math.MaxInt64: "8 EiB",
	} {
		must.Equal(t, size.String(), want, size.Text())
	}
}

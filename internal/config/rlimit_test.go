package config

import (
	"math"
	"strings"
	"testing"
)

func TestParseRlimit(t *testing.T) {
	for _, tt := range []struct {
		text       string
		soft, hard uint64
		bad        bool
	}{
		{text: "100", soft: 100, hard: 100},
		{text: "100:200", soft: 100, hard: 200},
		{text: "0:unlimited", soft: 0, hard: math.MaxUint64},
		{text: "unlimited", soft: math.MaxUint64, hard: math.MaxUint64},
		{text: "200:100", bad: true},
		{text: "unlimited:5", bad: true},
		{text: "", bad: true},
		{text: "-1", bad: true},
		{text: "+1", bad: true},
		{text: "8mb", bad: true},
		{text: "1:2:3", bad: true},
		{text: "1:", bad: true},
		{text: "18446744073709551615", bad: true},
	} {
		soft, hard, err := ParseRlimit(tt.text)
		if soft != tt.soft || hard != tt.hard || (err != nil) != tt.bad {
			t.Errorf("%q: %d, %d, %v", tt.text, soft, hard, err)
		}
	}
}

func TestRlimitsChecked(t *testing.T) {
	if f, err := Parse([]byte("[rlimits]\nnofile = \"1024:4096\"\ncore = \"0\"\nmemlock = \"unlimited\"\n"),
		Here{}); err != nil || f.Rlimits.Nofile != "1024:4096" {
		t.Errorf("%+v, %v", f, err)
	}
	_, err := Parse([]byte("[rlimits]\nstack = \"8mb\"\n"), Here{})
	if err == nil || !strings.HasPrefix(err.Error(), `rlimits.stack = "8mb": `) {
		t.Errorf("%v", err)
	}
}

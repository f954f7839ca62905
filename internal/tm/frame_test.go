package tm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/must"
)

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	frames := []frame{
		{framePayload, bytes.Repeat([]byte("x"), 200<<10)}, {frameData, []byte("a\x00\n")},
		{frameSignal, []byte("USR1")}, {kind: frameEOF}, {frameSignal, []byte("STOP")},
	}
	var b bytes.Buffer
	for _, f := range frames {
		must.NoError(t, writeFrame(&b, f))
	}
	whole := b.Bytes()
	for _, want := range frames {
		got, err := readFrame(&b)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(frame{})); diff != "" || err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
	}
	if _, err := readFrame(&b); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	cut := bytes.NewReader(whole[:len(whole)-1])
	for {
		if _, err := readFrame(cut); err != nil {
			if errors.Is(err, io.EOF) {
				t.Error("a frame that is cut off reads as the end")
			}
			break
		}
	}
	for _, bad := range []string{
		"x\x00\x00\x00\x00", "d\x00\x01\x00\x01", "d\xff\xff\xff\xff", "e\x00\x00\x00\x01x",
		"s\x00\x00\x00\x04KILL", "s\x00\x00\x00\x11aaaaaaaaaaaaaaaaa",
	} {
		if f, err := readFrame(bytes.NewReader([]byte(bad))); err == nil {
			t.Errorf("%q: %+v", bad, f)
		}
	}
}

// Whatever comes, a frame is refused or reads the same again, and no more is kept than a frame may
// have.
func FuzzReadFrame(f *testing.F) {
	for _, seed := range []string{
		"d\x00\x00\x00\x01a", "e\x00\x00\x00\x00", "s\x00\x00\x00\x03INT", "p\x00\x00\x00\x02{}",
		"d\xff\xff\xff\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readFrame(bytes.NewReader(b))
		if err != nil {
			if got.data != nil {
				t.Errorf("%v, and data all the same", err)
			}
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, got); err != nil || !bytes.Equal(again.Bytes(), b[:again.Len()]) {
			t.Errorf("%q was read as %q, %v", b, again.Bytes(), err)
		}
	})
}

func TestPayloadKeepsEveryByte(t *testing.T) {
	p := &payload{
		Version: payloadVersion, Job: "7.s", Command: []byte("a \xff'\"\n$!\\ b"),
		Env: map[string][]byte{"PBS_JOBNAME": []byte("\xfe x")},
	}
	encoded, err := json.Marshal(p)
	must.NoError(t, err)
	text := asWord(encoded)
	for _, c := range []byte(text) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			t.Fatalf("%q: a shell may do something with %q", text, c)
		}
	}
	b, err := fromWord(text)
	must.NoError(t, err)
	got, err := decodePayload(b)
	if diff := cmp.Diff(p, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if asWord(make([]byte, 100<<10)) != "" {
		t.Error("100 KiB are a word")
	}
	for text, want := range map[string]string{
		`{"v":2}`: "version 2", `[]`: "payload", ``: "payload", `{"v":1,"cmd":7}`: "payload",
	} {
		if _, err := decodePayload([]byte(text)); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := fromWord("a b"); err == nil {
		t.Error("two words are a payload")
	}
}

package api

import (
	"maps"
	"slices"
	"strings"
)

// attachedWords is the type of an answer to an attach for cmd/front, which reads no JSON: words, each ended by a NUL byte.
//
//	hookhost/1, any number of set NAME VALUE and unset NAME, end
//	hookhost/1, refused KIND MESSAGE, end
//
// A caller that sends an Accept of just this type gets it, with the status that the JSON has. An
// error that time heals is JSON for all: cmd/front leaves it to the full program, which tries again.
const attachedWords = "application/x-hookhost-attached"

// worded is an answer that there is in words too.
type worded interface{ words() []byte }

func (a Attached) words() []byte {
	judged, err := a.judged()
	if err != nil {
		return errorOf(err).words()
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(judged.Outcome.SetEnv)) {
		list = append(list, "set", name, judged.Outcome.SetEnv[name])
	}
	for _, name := range judged.Outcome.UnsetEnv {
		list = append(list, "unset", name)
	}
	return encodeWords(list)
}

func (e *Error) words() []byte {
	return encodeWords([]string{"refused", e.TM(), strings.ReplaceAll(e.Message, "\n", "; ")})
}

// encodeWords leaves out NUL bytes, which neither an environment nor a message can hold.
func encodeWords(list []string) []byte {
	var b []byte
	for _, word := range slices.Concat([]string{"hookhost/1"}, list, []string{"end"}) {
		b = append(append(b, strings.ReplaceAll(word, "\x00", "")...), 0)
	}
	return b
}

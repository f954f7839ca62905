package report

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
)

// Used is resources_used: by name, in PBS's formats ("00:00:02", "51200kb").
type Used hostapi.Resources

// MarshalJSON writes values as qstat -F json does: whole numbers (cpupercent, ncpus) as numbers,
// the rest as strings.
func (u Used) MarshalJSON() ([]byte, error) {
	values := make(map[string]any, len(u))
	for name, v := range u {
		values[name] = v
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && strconv.FormatInt(n, 10) == v {
			values[name] = n
		}
	}
	return json.Marshal(values)
}

// UnmarshalJSON accepts numbers and strings.
func (u *Used) UnmarshalJSON(b []byte) error { return (*hostapi.Resources)(u).UnmarshalJSON(b) }

// WriteJSON writes the report as one JSON object on one line, in one call, so that no reader of a
// pipe sees half an object.
func (r *Report) WriteJSON(w io.Writer) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// hostNames returns the names of the report's hosts in order.
func (r *Report) hostNames() []string { return slices.Sorted(maps.Keys(r.Hosts)) }

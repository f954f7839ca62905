package hostapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds on the series of a host or a device in one answer.
const (
	MaxPoints     = 1024 // times
	MaxColumns    = 32
	MaxColumnName = 64 // bytes
)

const columnLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"

// Columns of a host's series. A gauge is a value of that moment. A share or a rate is a mean since
// the previous point.
const (
	ColumnCPU            = "cpu"         // busy cpus, a mean
	ColumnRSSBytes       = "rss_bytes"   // anonymous plus shared memory, the highest value seen
	ColumnCacheBytes     = "cache_bytes" // page cache of files, a gauge
	ColumnPids           = "pids"        // processes and threads, a gauge
	ColumnReadBytes      = "read_bytes_per_second"
	ColumnWriteBytes     = "write_bytes_per_second"
	ColumnCPUPressure    = "cpu_pressure" // share of the time, 0 to 1, that some task waited
	ColumnMemoryPressure = "memory_pressure"
	ColumnIOPressure     = "io_pressure"
)

// Columns of a device's series.
const (
	ColumnUtilizationPercent = "utilization_percent" // a mean, as far back as the driver remembers
	ColumnDeviceMemBytes     = "mem_bytes"           // in use on the device, including the driver's own memory, a gauge
	ColumnPowerWatts         = "power_watts"         // a mean
)

// Series is usage over time: points, each with a time and a value in each column.
type Series struct {
	Times   []int64           `json:"times"` // Unix seconds, strictly ascending
	Columns map[string]Column `json:"columns"`
}

// Column has a value for each of the series' times. NaN means not measured and is null in JSON,
// which has four significant digits.
type Column []float64

// Check returns an error if a hook may not return s. Errors are times that do not ascend, a column
// of the wrong length, an invalid name and anything out of bounds.
func (s *Series) Check() error {
	switch {
	case s == nil:
		return nil
	case len(s.Times) > MaxPoints:
		return fmt.Errorf("times: %d are more than %d", len(s.Times), MaxPoints)
	case len(s.Columns) > MaxColumns:
		return fmt.Errorf("columns: %d are more than %d", len(s.Columns), MaxColumns)
	}
	for i := range s.Times {
		if s.Times[i] < 0 || i > 0 && s.Times[i] <= s.Times[i-1] {
			return fmt.Errorf("times[%d]: %d is not after the one before", i, s.Times[i])
		}
	}
	for name, column := range s.Columns {
		if name == "" || len(name) > MaxColumnName || strings.Trim(name, columnLetters) != "" {
			return fmt.Errorf("columns: %q is not a column's name", Clip(name, MaxColumnName))
		}
		if len(column) != len(s.Times) {
			return fmt.Errorf("columns.%s: %d values for %d times", name, len(column), len(s.Times))
		}
	}
	return nil
}

// CheckSeries returns an error if a series of u or its devices is out of bounds. A nil u is valid.
func (u *HostUsage) CheckSeries() error {
	if u == nil {
		return nil
	}
	if err := u.Series.Check(); err != nil {
		return fmt.Errorf("usage: series: %w", err)
	}
	for _, d := range u.Devices {
		if err := d.Series.Check(); err != nil {
			return fmt.Errorf("usage: devices: series: %w", err)
		}
	}
	return nil
}

// MarshalJSON writes four significant digits of each value. NaN and infinity become null.
func (c Column) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, 2+8*len(c))
	text = append(text, '[')
	for i, value := range c {
		if i > 0 {
			text = append(text, ',')
		}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendFloat(text, value, 'g', 4, 64)
		}
	}
	return append(text, ']'), nil
}

// UnmarshalJSON reads numbers and null, which is NaN.
func (c *Column) UnmarshalJSON(text []byte) error {
	var values []*float64
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	*c = make(Column, len(values))
	for i, value := range values {
		(*c)[i] = math.NaN()
		if value != nil {
			(*c)[i] = *value
		}
	}
	return nil
}

package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// sink collects samples that share labels.
type sink struct {
	labels  []string
	samples []prometheus.Metric
}

// sample adds a value unless it is unknown.
func sample[T int64 | float64](
	add func(*prometheus.Desc, float64, ...string), d *prometheus.Desc, value *T, labels ...string,
) {
	if value != nil {
		add(d, float64(*value), labels...)
	}
}

func (s *sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.add(d, prometheus.GaugeValue, value, labels)
}

func (s *sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.add(d, prometheus.CounterValue, value, labels)
}

// add adds a sample. Its own labels follow the shared ones.
func (s *sink) add(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	m, err := prometheus.NewConstMetric(d, kind, value, slices.Concat(s.labels, labels)...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s.samples = append(s.samples, m)
}

func (s *sink) sendTo(ch chan<- prometheus.Metric) {
	for _, m := range s.samples {
		ch <- m
	}
}

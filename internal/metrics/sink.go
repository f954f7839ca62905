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

func (s *sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.add(d, gauge, value, labels)
}

func (s *sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.add(d, counter, value, labels)
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

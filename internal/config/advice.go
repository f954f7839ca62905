package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/hookhost/hookhost/internal/condition"
)

// Advice is a site's own advice in reports. Jobs that meet the condition get it.
type Advice struct {
	When string `toml:"when" json:"when"` // as condition.Parse reads it
	Text string `toml:"text" json:"text"`
	Link string `toml:"link" json:"link,omitempty"` // "" or an http or https URL
}

const (
	mostAdvice  = 64
	longestText = 300 // in bytes
)

// checkAdvice returns an error for the first invalid [[advice]] table.
func (f *File) checkAdvice() error {
	if len(f.Advice) > mostAdvice {
		return fmt.Errorf("advice: %d tables: want %d at most", len(f.Advice), mostAdvice)
	}
	for i, a := range f.Advice {
		if err := a.check(); err != nil {
			return fmt.Errorf("advice %d: %w", i+1, err)
		}
	}
	return nil
}

func (a Advice) check() error {
	if _, err := condition.Parse(a.When); err != nil {
		return fmt.Errorf("when: %w", err)
	}
	if strings.TrimSpace(a.Text) == "" {
		return errors.New("text: want what the job's owner should know")
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if strings.ContainsFunc(a.Text, hidden) || len(a.Text) > longestText {
		return fmt.Errorf("text: want one line of at most %d bytes", longestText)
	}
	if a.Link == "" {
		return nil
	}
	link, err := url.Parse(a.Link)
	if err != nil || link.Host == "" || link.Scheme != "https" && link.Scheme != "http" ||
		strings.ContainsFunc(a.Link, func(r rune) bool { return hidden(r) || r == ' ' }) || len(a.Link) > longestText {
		return fmt.Errorf("link = %.80q: want a URL such as https://hpc.example/gpus", a.Link)
	}
	return nil
}

package config

import "strings"

// PAM configures `hookhost pam`: who may log in to this host, and which job the session is part of.
type PAM struct {
	Restrict    bool     `toml:"restrict" json:"restrict"`
	Adopt       string   `toml:"adopt" json:"adopt"`
	Allow       []string `toml:"allow" json:"allow"`
	Unavailable string   `toml:"unavailable" json:"unavailable"`
}

// The values of adopt and of unavailable.
const (
	AdoptOff    = "off"
	AdoptNewest = "newest"
	PAMDeny     = "deny"
	PAMAllow    = "allow"
)

// Off reports whether every login is let in and left alone.
func (p PAM) Off() bool { return !p.Restrict && p.Adopt == AdoptOff }

func (p PAM) check() error {
	rules := []rule{
		oneOf("pam.adopt", p.Adopt, "off, newest or deny", AdoptOff, AdoptNewest, PAMDeny),
		oneOf("pam.unavailable", p.Unavailable, "deny or allow", PAMDeny, PAMAllow),
	}
	for _, name := range p.Allow {
		rules = append(rules, rule{"pam.allow", name,
			strings.TrimPrefix(name, "@") != "" && !strings.ContainsAny(name, ":,\n"),
			"the name of a user, or @ and that of a group"})
	}
	return firstBroken(rules...)
}

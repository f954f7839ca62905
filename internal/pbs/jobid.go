package pbs

import "strings"

// NamesJob reports whether a person who writes given means the job with that id. That is the id
// itself, or its beginning up to a dot: 12 and 12.server are the job 12.server.example.
func NamesJob(given, id string) bool {
	return given == id || given != "" && strings.HasPrefix(id, given+".")
}

package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// image is an image as a job names it: PATH, docker://NAME, docker-archive:PATH or
// oci-archive:PATH.
type image struct {
	transport string // docker, docker-archive, oci-archive, or "" for a path alone
	name      string // the path or, for docker, the name
}

const docker = "docker"

// longest bounds what a job may write, in bytes: PATH_MAX.
const longest = 4095

// registryName matches a name with its registry, tag and digest. It cannot be an option.
var registryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// digest is what may follow an @.
var digest = regexp.MustCompile(`^[a-z0-9]+:[0-9a-fA-F]+$`)

// errCredentials rejects USER:PASSWORD@ in a name. The name of a job's image is public: qstat,
// accounting, reports and the engine's command line have it.
var errCredentials = errors.New("its name contains '@', which only a digest may follow: " +
	"give credentials to the engine's login command")

// parseImage parses the value of -l container. A path has to be absolute, because MoM starts tasks
// in several directories, and so it is never an option of the engine.
func parseImage(text string) (image, error) {
	i := image{name: text}
	switch scheme, rest, _ := strings.Cut(text, ":"); scheme {
	case docker:
		i = image{docker, strings.TrimPrefix(rest, "//")}
		if _, after, has := strings.Cut(i.name, "@"); has && !digest.MatchString(after) {
			return image{}, errCredentials
		}
		if !strings.HasPrefix(rest, "//") || !registryName.MatchString(i.name) {
			return image{}, errors.New("want docker://NAME, such as docker://alpine:3.20")
		}
	case "docker-archive", "oci-archive":
		i = image{scheme, rest}
	}
	switch {
	case len(text) > longest:
		return image{}, fmt.Errorf("%d bytes are more than %d", len(text), longest)
	case i.transport == docker:
		return i, nil
	case !utf8.ValidString(i.name) || strings.ContainsFunc(i.name, unicode.IsControl):
		return image{}, errors.New("want a path without control characters")
	case !path.IsAbs(i.name) || path.Clean(i.name) != i.name || i.name == "/":
		return image{}, errors.New("want the absolute path of an image, without . and .., or docker://NAME")
	case i.transport != "" && strings.Contains(i.name, ":"):
		return image{}, errors.New("want a path without a colon") // engines take what follows for a name
	}
	return i, nil
}

// path returns the file or directory of the image; "" if it is in a registry.
func (i image) path() string {
	if i.transport == docker {
		return ""
	}
	return i.name
}

func (i image) String() string {
	switch i.transport {
	case "":
		return i.name
	case docker:
		return "docker://" + i.name
	}
	return i.transport + ":" + i.name
}

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// findProgram returns where the program of a built-in hook is.
func findProgram(name string) (string, error) { return findBeside(filepath.Join("hooks", name)) }

// libexecDir is where files that come with hookhost are installed; set by the Makefile.
var libexecDir = "/usr/libexec/hookhost"

// findBeside returns where a file that comes with hookhost is: beside this executable, as it was
// built, or in libexec, as it was installed. The first is named where there is none.
func findBeside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	places := []string{filepath.Join(filepath.Dir(self), name), filepath.Join(libexecDir, name)}
	for _, p := range places {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
	}
	return places[0], nil
}

// remshProgram is the path of remsh as a program of its own, which some launchers need. It is ""
// when that is not beside this executable.
func remshProgram() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), "hookhost-remsh")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

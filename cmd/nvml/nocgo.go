//go:build !cgo

package main

import (
	"fmt"

	"github.com/hookhost/hookhost/internal/inventory"
)

// library cannot be loaded without cgo. The program exists so that everything builds without a C
// compiler.
type library struct{}

func open(path string) (*library, error) {
	return nil, fmt.Errorf("%w: %s: this program was built without cgo", errNone, path)
}

func (l *library) inventory() (*inventory.NVIDIA, error)           { return nil, errNone }
func (l *library) usage(uuids []string) (u *inventory.NVIDIAUsage) { return nil }
func (l *library) accountOn() error                                { return errNone }

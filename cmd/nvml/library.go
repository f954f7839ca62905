//go:build cgo

package main

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is NVML, loaded and initialised. The library is never shut down: that would be one more
// call that may hang.
type library struct {
	nvml.Interface
	symbols *dl.DynamicLibrary
}

// needed is what is called without a look whether it is there. All drivers since 2014 have it.
var needed = []string{
	"nvmlInit_v2", "nvmlErrorString", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
	"nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetAccountingPids",
	"nvmlDeviceGetAccountingStats", "nvmlDeviceSetAccountingMode",
}

// open loads the library and initialises it. A library that finds no driver is errNone, like one
// that is not there. Images for all nodes have the library on nodes without a GPU too.
func open(path string) (*library, error) {
	// go-nvml resolves symbols from the global scope, and loads the same library once more without
	// saying what failed.
	symbols := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := symbols.Open(); err != nil {
		return nil, fmt.Errorf("%w: %v", errNone, err)
	}
	l := &library{nvml.New(nvml.WithLibraryPath(path)), symbols}
	for _, symbol := range needed {
		if !l.has(symbol) {
			return nil, fmt.Errorf("load %s: it has no %s: it is not NVML, or too old", path, symbol)
		}
	}
	var ret nvml.Return
	if l.has("nvmlInitWithFlags") {
		ret = l.InitWithFlags(nvml.INIT_FLAG_NO_GPUS)
	} else {
		ret = l.Init()
	}
	if ret == nvml.ERROR_DRIVER_NOT_LOADED {
		return nil, fmt.Errorf("%w: initialise %s: %v", errNone, path, ret)
	}
	return l, failed(ret, "initialise "+path)
}

// has reports whether the library knows a function. Calling one that it does not know ends the
// process: symbols are resolved at their first use.
func (l *library) has(symbol string) bool { return l.symbols.Lookup(symbol) == nil }

// absent tells that the device has no such thing, which is an answer and no failure.
func absent(ret nvml.Return) bool {
	return ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_FUNCTION_NOT_FOUND
}

func failed(ret nvml.Return, doing string) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ret)
}

// accountOn turns accounting mode on wherever there is such a thing, and joins what failed.
func (l *library) accountOn() error {
	count, ret := l.DeviceGetCount()
	if err := failed(ret, "count GPUs"); err != nil {
		return err
	}
	var errs []error
	for i := range count {
		device, ret := l.DeviceGetHandleByIndex(i)
		if ret == nvml.SUCCESS {
			ret = device.SetAccountingMode(nvml.FEATURE_ENABLED)
		}
		if !absent(ret) {
			errs = append(errs, failed(ret, fmt.Sprintf("account on GPU %d", i)))
		}
	}
	return errors.Join(errs...)
}

//go:build cgo

package main

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is NVML, loaded and initialised. It is never shut down: that would be one more call that
// may hang.
type library struct {
	nvml.Interface
	symbols *dl.DynamicLibrary
}

// needed are the functions that are called without a check whether they exist. All drivers since
// 2014 have them.
var needed = []string{
	"nvmlInit_v2", "nvmlErrorString", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
	"nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetAccountingPids",
	"nvmlDeviceGetAccountingStats", "nvmlDeviceSetAccountingMode",
}

// open loads the library and initialises it. The error is errNone if the library is missing or
// finds no driver. Images for all nodes have the library on nodes without a GPU too.
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

// has reports whether the library has a function. Calling a missing one ends the process, because
// symbols are resolved at their first use.
func (l *library) has(symbol string) bool { return l.symbols.Lookup(symbol) == nil }

// absent reports whether the device lacks the feature, which is an answer and not a failure.
func absent(ret nvml.Return) bool {
	return ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_FUNCTION_NOT_FOUND
}

func failed(ret nvml.Return, doing string) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ret)
}

// accountOn turns on accounting mode on all GPUs that support it, and joins the errors.
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

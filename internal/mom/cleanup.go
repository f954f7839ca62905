package mom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// cleanUpTime bounds the removal of a TMPDIR, which may be huge, or may be filled meanwhile.
const cleanUpTime = 10 * time.Second

// errInterrupted is the error of a removal that a signal ended.
var errInterrupted = errors.New("interrupted")

// cleanUp removes the files created for the job. A signal that ends programs also ends the removal,
// if it arrives during cleanUp. The daemon then removes the rest.
func (w *walk) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cleanUpTime,
		fmt.Errorf("not done within %v", cleanUpTime))
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	for len(w.spec.Signals) > 0 { // sent earlier, to the program
		<-w.spec.Signals
	}
	done := make(chan []error, 1)
	go func() {
		var errs []error
		for _, undo := range slices.Backward(w.undo) {
			if err := undo(ctx); err != nil {
				errs = append(errs, fmt.Errorf("clean up job %s: %w", w.job.ID, err))
			}
		}
		done <- errs
	}()
	var hangs <-chan time.Time
	for signals, ended := w.spec.Signals, ctx.Done(); ; {
		select {
		case errs := <-done:
			w.failures = append(w.failures, errs...)
			return
		case <-ended:
			ended, hangs = nil, time.After(time.Second)
		case <-hangs:
			w.fail(fmt.Errorf("clean up job %s: its TMPDIR hangs in the kernel: %w", w.job.ID, context.Cause(ctx)))
			return
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			}
			if sig, ok := sig.(syscall.Signal); ok && ends(sig) {
				interrupt(errInterrupted)
			}
		}
	}
}

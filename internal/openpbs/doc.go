// Package openpbs speaks what pbs_mom of OpenPBS speaks with its hooks: it reads the file that MoM
// writes for a hook (IN), and says what the hook is to change in words that the shim carries out,
// or in the text of the file that MoM reads back (OUT). It also reads what MoM logs of a job's
// hosts.
//
// It follows src/resmom/mom_hook_func.c, src/tools/pbs_python.c and src/lib/Libattr/attr_func.c of
// OpenPBS. What comes in is text that users have a part in, so every reader is bounded and doubts. It
// is pure, but for ReadTotals: no file, no clock, no state.
package openpbs

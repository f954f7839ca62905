// Package openpbs implements the formats that pbs_mom of OpenPBS uses with its hooks. It reads the
// file that MoM writes for a hook (IN). The hook's changes are verbs that the shim carries out, or
// the text of the file that MoM reads back (OUT). The package also reads MoM's log lines about a
// job's hosts.
//
// The package follows src/resmom/mom_hook_func.c, src/tools/pbs_python.c and
// src/lib/Libattr/attr_func.c of OpenPBS. Users can influence the input, so every reader is bounded
// and trusts nothing. The package is pure, except for ReadTotals: no file, no clock, no state.
package openpbs

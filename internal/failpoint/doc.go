// Package failpoint names steps of the service at which a crash is of interest.
// A test that wants the service dead at one of them builds it with the tag
// "failpoint" and sets the environment variable FAILPOINT:
//
//	FAILPOINT=acked:3    die when the step "acked" is passed for the third time
//
// Without the tag [Here] does nothing, and the compiler leaves it out.
package failpoint

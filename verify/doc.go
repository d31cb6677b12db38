// Package verify is the root of a module that checks the timer service from
// outside: crash and power kill it, ondue kills programs that embed it, faults,
// poison, kafka and switching harm the parts that it depends on, interop uses it with the software
// of others, services gives others the same faults, bench measures it, and mutants break its
// code to see a test fail.
package verify

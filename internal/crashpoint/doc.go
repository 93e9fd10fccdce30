// Package crashpoint ends or freezes the process at a named place, for the tests
// that hold what is committed equal to an undisturbed run's. It does so only when
// built with the tag crashpoints; otherwise At is empty and costs nothing.
package crashpoint

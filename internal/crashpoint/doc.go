// Package crashpoint ends or freezes the process at a named place, for the tests
// that hold what is committed equal to an undisturbed run's. It does so only when
// built with the tag crashpoints; otherwise At is empty and costs nothing, and Bound is 0.
// Bound is for bounds that must be small for a short test to come to all places.
package crashpoint

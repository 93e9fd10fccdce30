// Package crashpoint kills or suspends the process at a named point, for tests that compare what is
// committed with an undisturbed run. It does so only in builds with the tag crashpoints; otherwise
// At does nothing and Bound is 0. Bound replaces bounds that must be small so that a short test
// reaches all points.
package crashpoint

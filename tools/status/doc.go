// Package status reads the overview of a pipeline from its API and shows it: as tables, and as a screen
// of a terminal that is drawn again each second.
//
// The screen is a pure function of what was read, the keys and the size (screen.go); top.go reads,
// listens to keys and draws.
package status

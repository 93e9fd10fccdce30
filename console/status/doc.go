// Package status reads the overview of a pipeline from its API and shows it as tables.
package status

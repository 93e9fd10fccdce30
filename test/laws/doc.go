// Package laws has no code: its tests hold the rules of who may import whom, and of how much there is.
package laws

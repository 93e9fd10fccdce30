// Package laws has no code: its tests hold the rules of who may import whom.
package laws

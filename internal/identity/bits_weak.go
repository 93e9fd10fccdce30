//go:build stillhere_weak_ids

package identity

// idBits makes two names with one id easy to find, for tests of collisions. Never use such a build
// for users.
const idBits = 1<<16 - 1

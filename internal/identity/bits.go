//go:build !stillhere_weak_ids

package identity

// idBits masks the ids of users.
const idBits = 1<<63 - 1

// Package identity computes the ids of users whom callers know by names.
//
// With --ids int a user id is a positive 64-bit integer, as callers give it. With --ids text a user
// is a tenant and a name, and the id is a pure function of both under the pipeline's identity key:
// the upper 63 bits of SipHash-2-4 of (tenant, 0, name), 1 if these are 0. So no process has to ask
// another one for an id, and a caller who is bound to a tenant cannot name a user of another one.
//
// The key cannot be changed while the pipeline exists: every id hangs on it. Producers that write
// to Kafka directly need the key. Others send names to an ingester and need none.
// testdata/vectors.tsv holds ids that every implementation must compute.
package identity

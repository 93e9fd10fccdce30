// Package erasure erases users on Kafka (Writer), and all users of a tenant (Run).
//
//	durable store, follower graph ──names──▶ Run ──▶ Writer ──erasures──▶ the running pipeline
//
// The names are the list of what is left: the pipeline removes the name of each erased user from
// both. So a run that ends early is continued by another one, which finds the rest, and the end is
// known: no source lists a user of the tenant any more. Users whose names come while it runs are found
// by the next pass.
//
// # Failure
//
// A source or the pipeline does not answer: Run ends with the error; what was written stays, and
// repeating an erasure does no harm.
//
// Users stay listed, because the pipeline is stopped or lags: after Stall they are erased again, and
// after Passes Run returns how many are left.
package erasure

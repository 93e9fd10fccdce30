// Package graphgate serves the follower graph over HTTP, for administrators:
//
//	PUT    /presence/{user_id}/followers/{follower_id}   the follower follows the user
//	DELETE /presence/{user_id}/followers/{follower_id}   not any more
//	POST   /presence/followers                           many of both, all or nothing
//	GET    /presence/{user_id}/followers                 the followers of a user, in pages
//
// Requests write to the store, not to presence.graph: an answer means that the change is committed
// and in force, a bulk request is one transaction, and Kafka need not be reachable. Every write may
// be repeated. Authentication comes before the endpoints and asks for the scope presence:admin.
//
// Under failure: a store that does not answer within Config.Timeout is a 503 with Retry-After; the
// change may have been committed, and repeating it is safe. More than Config.MaxRequests requests
// at a time get 503 at once.
package graphgate

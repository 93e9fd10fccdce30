// Package auth authenticates requests. It reads a JSON Web Token from each request,
// verifies it, checks the scope that the endpoint needs, and passes the request on with
// its caller.
//
// A token comes as "Authorization: Bearer …"; where a browser opens a WebSocket or
// Server-Sent Events, which cannot send headers, as the query parameter
// access_token, which auth removes before any other handler sees the request.
//
//	claim        meaning
//	sub          the user's id, a positive 64-bit number as text; with --ids text the user's name
//	gateway_id   in place of it: a gateway or server, which speaks for any user
//	tenant       with --ids text: the only tenant that the caller may name; "*", of gateways, observers and administrators: any
//	scope        presence:beat, presence:read, presence:observe, presence:admin, separated by spaces
//	exp          needed; iss and aud are checked where they are configured
//
//	no token, or an invalid one              401, WWW-Authenticate: Bearer
//	a valid token that does not allow this   403
//	a token of a tenant, with --ids int      403
//	too many requests of one caller          429, Retry-After
//	no keys are available                    503, Retry-After
//
// It knows no service: the wiring puts the caller into the request's context.
package auth

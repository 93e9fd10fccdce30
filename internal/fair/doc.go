// Package fair divides what a process can do among tenants.
//
//	Turns: items of several tenants, each tenant's in order, given out in turns (deficit round robin)
//	Gate:  a bound of requests at work; requests above it wait, and enter in turns of their tenants
//
// The share of a tenant is its weight divided by the weights of all tenants that have something waiting.
// What a tenant does not use goes to the others, so a tenant alone has everything. A tenant whose queue
// was empty waits for at most one turn of each other tenant.
//
// The turns are those of M. Shreedhar and G. Varghese, Efficient Fair Queuing Using Deficit Round-Robin,
// IEEE/ACM Transactions on Networking 4(3), 1996, with costs that may become known after an item is
// given out: a tenant may overdraw its credit by what it was given in one turn, and pays before its next
// one.
package fair

// Package postgres is how the stores of two rooms reach a server: its address, the
// limits of a connection, and the number of the tables they find. It knows no room
// and no table.
package postgres

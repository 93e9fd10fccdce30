// Package postgres is how the stores of two services reach a server: its address, the limits of a
// connection, and the schema of the tables. It knows no service and no table.
package postgres

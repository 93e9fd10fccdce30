// Package output writes what commands print for people: aligned tables, whose instants are in UTC as everywhere else.
package output

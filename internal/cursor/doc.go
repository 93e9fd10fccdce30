// Package cursor seals how far a reader has followed some users, so that it can ask later for
// exactly what it missed.
//
// A cursor has one version for each user, in ascending order of the users, and an instant of the
// log. Nothing is concluded from one user to another: no store and no channel promises an order
// between users. The versions are bit columns (log epoch, offset, ordinal), each as wide as its
// greatest value: about 4 bytes a user, 5.5 characters of the text.
//
// A message authentication code covers the content and the users. Without it a caller could ask for
// what happened before it was allowed to read, which is a history. So a cursor is readable only
// where it was made: by the nodes of one deployment, which share a key, and for the same users.
package cursor

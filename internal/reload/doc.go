// Package reload notices that the configuration of a process has changed: a signal arrives, or a file
// has other contents. Then it loads the configuration, and reports in one line of the log and in
// metrics what came of it.
//
// It compares contents, not times, because a mounted ConfigMap or Secret is a symlink that is swapped.
// It loads when two looks in a row find the same new contents, so that a file that is being written is
// not read in part. Contents that could not be used are tried again when they change, or at a signal.
package reload

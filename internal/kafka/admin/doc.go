// Package admin creates, checks and deletes the topics of schemas.Topics and grants ACLs.
//
// ApplyTopics creates missing topics and changes none that exist. CheckTopics compares them with
// their specification: a process starts only if it passes. WatchTopics compares again while a
// process runs; it reports a difference by a log line and a metric, and the process continues.
package admin

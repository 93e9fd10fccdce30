// Package admin creates, checks and deletes the topics of schemas.Topics and grants ACLs.
//
// ApplyTopics creates missing topics. Of topics that exist it changes the retention that the operator
// gave, and nothing else. CheckTopics compares them with
// their specification: a process starts only if it passes. WatchTopics compares again while a
// process runs; it reports a difference by a log line and a metric, and the process continues.
package admin

// Package kafka holds what every Kafka client of a process shares: settings, TLS and SASL, the
// producer, reads of ranges of partitions, metrics, and the metadata that the client does not offer.
//
// The loops are below it: processor (exactly once), consumer (at least once), and what both share
// (member). Services implement processor.Task and consumer.Handler and never see a Kafka client.
// Package admin creates and checks topics and grants ACLs; package registry registers the messages
// with a Schema Registry.
//
// Producer appends outside of transactions and gives up in bounded time. Reader reads ranges of
// partitions outside of any group.
package kafka

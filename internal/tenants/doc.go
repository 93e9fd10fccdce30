// Package tenants knows the settings of the tenants of a pipeline with --ids text: quotas and history.
//
//	stillhere tenants set, policy set --tenant ──▶ [presence.pipeline] ──▶ Directory (one per process) ──▶ Settings(tenant), Policies
//
// The topic keeps every record for ever. The newest record of a tenant counts; a setting that it does
// not name is that of the tenant "*", and without that schemas.DefaultQuotas bound tenants with a name, except in dev. A process reads the topic
// when it starts and again every few seconds.
//
// # Failure
//
// Kafka cannot be read: the settings that were read last stay, and the failure is logged.
//
// A record cannot be read: it is skipped and logged, so that one record does not hide those after it.
package tenants

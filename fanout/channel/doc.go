// Package channel has the ready notification channels: a signed webhook, the sockets of the live
// stream, and a log. Package internal/delivery runs channels; its documentation says what all of them
// promise. Package client/deliveries runs your own channel.
package channel

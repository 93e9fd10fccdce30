// Package channel has the notification channels that stillhere brings along: a signed
// webhook, the sockets of the live stream, a log. What all channels promise, in which
// order and how deliveries are tried again, is in package internal/delivery; a channel of
// your own is run by package client/deliveries.
package channel

// Package signing signs and checks frames, so that only the programs of a deployment may write what
// counts in the heartbeats, however many may write to the topic.
//
//	master ──derive──▶ control key    signs everything: ingest, detector, operators' commands
//	       └─derive──▶ gateway's key  signs beats of one gateway, with --ids text of some tenants
//
// A frame names its key (key_id), so a reader needs nothing but the frame and the masters. Every
// master verifies, the first one signs: masters are replaced while processes run, by a file that is read
// again. A master comes last in the files of all processes before any of them has it first, and goes when no
// record that it signed may be read again, after the retention of the heartbeats.
//
// Key id: "c:" and the master's fingerprint; or "g:" and the fingerprint, for a key that is bound to tenants
// followed by ":" and the tenants, separated by commas. The fingerprint is 8 hexadecimal digits: the first 4
// bytes of HMAC-SHA-256(master, "stillhere master"). Key: HMAC-SHA-256(master, "stillhere frame key v1", a zero
// byte, key id, a zero byte, gateway id), where the control key has no gateway id. schemas/proto says what the
// MAC covers. The id of a gateway whose key is bound to tenants begins with one of them and a slash; a gateway of the
// default tenant has no slash.
package signing

// Package storm kills, freezes and starves detectors while several hundred users come and go, and
// compares what was committed with the oracle. A storm is decided before it begins: fate draws the
// plan from a seed, life carries it out, load writes heartbeats, judge compares with the oracle,
// marks counts transactions. The broker is a stand-in in a process of its own, or Apache Kafka
// where STILLHERE_TEST_KAFKA names one. ../DESIGN.md gives the reasons and the figures.
package storm

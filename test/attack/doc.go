// Package attack attacks binaries of the pipeline on every endpoint and in the topics, and checks
// what honest users notice. The name of a test says what holds. The tests run
// where STILLHERE_PROCESSES=1 asks for them. Package load attacks for minutes, from processes of its own.
package attack

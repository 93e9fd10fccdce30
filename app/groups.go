package app

import "github.com/stillhere/stillhere/internal/origin"

// Consumer groups, as Kafka knows them where the topic prefix is the default; see kafka.Config.GroupName.
const (
	detectorGroup  = origin.DetectorGroup
	sinkGroup      = "stillhere.lastseen.sink"
	projectorGroup = "stillhere.lastseen.projector"
	unsureGroup    = "stillhere.lastseen.unsure"
	namesGroup     = "stillhere.lastseen.names" // with --ids text
	seenGroup      = "stillhere.lastseen.seen"
	publishGroup   = "stillhere.fanout.publish"
	plannerGroup   = "stillhere.fanout.planner"
	workerGroup    = "stillhere.fanout.worker"
	graphGroup     = "stillhere.fanout.graph"
	channelGroup   = "stillhere.channel." // and the name of the channel
	liveGroup      = channelGroup + "live"

	// Names in metrics only: each process reads all of the topic, without a group.
	onlineGroup = "stillhere.fanout.here"
	newestGroup = "stillhere.fanout.newest"
)

package processor

import "time"

// endingTimeout bounds the publishing again of what hung.
const endingTimeout = 10 * time.Minute

// transactionTimeout is how long the brokers leave a transaction open that nobody
// ends: as long as the group waits for a silent member, so that what a dead member
// left open is gone when its successor needs it gone. Where a commit has taken
// about as long, the next session gets twice that: on a broker so slow it would
// else be thrown away for every transaction, and get nowhere.
func (p *Processor) transactionTimeout() time.Duration {
	if p.slowBrokers.Load() {
		return 2 * p.cfg.SessionTimeout
	}
	return p.cfg.SessionTimeout
}

// adjustTimeout learns from how long a transaction took, whether it was committed or not.
func (s *session) adjustTimeout(took time.Duration) {
	switch timeout := s.proc.cfg.SessionTimeout; {
	case took > timeout*2/3 && !s.proc.slowBrokers.Swap(true):
		s.proc.log.Warn("a transaction took almost as long as its timeout; the next session doubles the timeout", "took", took)
	case took < timeout/6:
		s.proc.slowBrokers.Store(false)
	}
}

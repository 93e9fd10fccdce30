package live

import "time"

// drain takes no more streams, tells those there are when to come back, and
// returns when all have ended. Those that have not within DrainTimeout are broken.
func (s *Server) drain() {
	s.mu.Lock()
	s.stopping = true
	var tell []*viewer
	for st := range s.streams {
		// The socket that an embedded stream is in says goodbye itself, and closes it.
		if st.viewer != nil && st.kind != "embedded" {
			tell = append(tell, st.viewer)
		}
	}
	s.mu.Unlock()
	for _, v := range tell {
		v.post(request{kind: goodbye})
	}
	late := time.AfterFunc(s.cfg.DrainTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for st := range s.streams {
			if st.abort != nil {
				go st.abort() // running waits for the stream, and so for this
			}
		}
	})
	defer late.Stop()
	s.running.Wait()
}

package liveness

// slab keeps values that entries name by number, in chunks so that growth moves nothing.
type slab[T any] struct {
	chunks [][]T
	free   []uint32
	used   int
}

const slabChunk = 512

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i/slabChunk][i%slabChunk] }

func (s *slab[T]) add(v T) uint32 {
	if len(s.free) == 0 {
		first := uint32(len(s.chunks) * slabChunk)
		s.chunks = append(s.chunks, make([]T, slabChunk))
		for i := first + slabChunk; i > first; i-- {
			s.free = append(s.free, i-1)
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	*s.at(i) = v
	s.used++
	return i
}

func (s *slab[T]) remove(i uint32) {
	*s.at(i) = *new(T)
	s.free = append(s.free, i)
	if s.used--; s.used == 0 {
		*s = slab[T]{}
	}
}

// bytes is the memory of the slab, whose values take size bytes each.
func (s *slab[T]) bytes(size int) int { return len(s.chunks)*(slabChunk*size+24) + 4*cap(s.free) }

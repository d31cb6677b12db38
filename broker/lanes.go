package broker

import "sync"

// Lanes run functions at once, but those of one key one after the other, in the
// order they were given. The zero value is ready to use.
type Lanes struct {
	mu    sync.Mutex
	lanes map[string][]func() // by key, while a goroutine works on them; the first one runs
	work  sync.WaitGroup
}

// Go runs f after all functions given before under the same key have returned.
// Functions without a key wait for nobody. It never blocks.
func (l *Lanes) Go(key string, f func()) {
	if key == "" {
		l.work.Go(f)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes == nil {
		l.lanes = make(map[string][]func())
	}
	lane, busy := l.lanes[key]
	l.lanes[key] = append(lane, f)
	if !busy {
		l.work.Go(func() { l.drive(key) })
	}
}

// Wait waits until all functions have returned. No more may be given then.
func (l *Lanes) Wait() { l.work.Wait() }

// drive runs the functions of a lane until there are no more.
func (l *Lanes) drive(key string) {
	for f := l.head(key); f != nil; f = l.next(key) {
		f()
	}
}

func (l *Lanes) head(key string) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes[key][0]
}

// next drops the function that has returned and returns the one after it. It
// returns nil, and closes the lane, if there is none.
func (l *Lanes) next(key string) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.lanes[key]
	lane[0] = nil // what it refers to can go
	lane = lane[1:]
	if len(lane) == 0 {
		delete(l.lanes, key)
		return nil
	}
	l.lanes[key] = lane
	return lane[0]
}

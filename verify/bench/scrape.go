package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
)

// scraped returns the environment of one more instance. Its metrics are read from
// then on, every [Options.Scrape], if that is not zero.
func (s *system) scraped(ctx context.Context) (environ []string, err error) {
	if s.opt.Scrape <= 0 {
		return s.environ, nil
	}
	port, err := freeport.Find(ctx)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	reads, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for every := time.NewTicker(s.opt.Scrape); ; {
			select {
			case <-ctx.Done():
				every.Stop()
				return
			case <-every.C:
				if read(ctx, "http://"+address+"/metrics") == nil {
					reads++
				}
			}
		}
	}()
	s.close = append(s.close, func() error {
		cancel()
		<-done
		if reads == 0 {
			return fmt.Errorf("void: the metrics of %s were never read", address)
		}
		fmt.Fprintf(s.opt.Progress, "metrics read %d times\n", reads)
		return nil
	})
	return append(slices.Clip(s.environ), "TIMER_HTTP_ADDR="+address), nil
}

// read gets a page, and drops it.
func read(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

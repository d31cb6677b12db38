package envelope

import "context"

type placeKey struct{}

// WithPlace returns a context for a message that stands in line with those of
// its key. Leave is called when those behind it need not wait for it any more;
// it may be called more than once.
func WithPlace(ctx context.Context, leave func()) context.Context {
	return context.WithValue(ctx, placeKey{}, leave)
}

// LeavePlace says that the message whose context this is has no bearing on those
// behind it, such as one that is invalid. They need not wait until it is acked.
// It does nothing for a message that stands in no line.
func LeavePlace(ctx context.Context) {
	if leave, ok := ctx.Value(placeKey{}).(func()); ok {
		leave()
	}
}

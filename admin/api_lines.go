package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// These are the limits of one request with many commands.
const (
	MaxCommands      = 1000
	MaxCommandsBytes = 1 << 20
)

// linesTimeout is how long publishing the commands of a request may take: a broker may sync
// each to its disk.
const linesTimeout = 20 * time.Second

// RecordSeparator as the first character of a body says that each envelope begins with one.
// Then envelopes may contain line breaks (RFC 7464).
const RecordSeparator = "\x1e"

const commandsPath = "/v1/commands"

// These are the results of a line.
const (
	Published = "published" // the broker has stored the command
	Refused   = "refused"   // nothing was published, and a retry can't help
	Failed    = "failed"    // the broker did not answer, but may have the command
)

// A LineResult is the result of one line of a request with many commands.
type LineResult struct {
	Line   int          `json:"line" doc:"Its number in the request, from 1."`
	ID     string       `json:"id,omitempty" doc:"Of the command, if the line has one."`
	Result string       `json:"result" enum:"published,refused,failed" doc:"published: the broker has stored the command. refused: nothing was published, see reason and detail. failed: the broker did not answer, but may have the command; send it again."`
	Reason timer.Reason `json:"reason,omitempty" doc:"As of a dead letter."`
	Detail string       `json:"detail,omitempty" doc:"The same for people."`
}

type (
	linesInput struct {
		RawBody []byte `contentType:"application/jsonl"`
	}
	linesOutput struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}
)

func (a *api) publishLines(ctx context.Context, in *linesInput) (*linesOutput, error) {
	separator := "\n"
	body, separated := bytes.CutPrefix(in.RawBody, []byte(RecordSeparator))
	if separated {
		separator = RecordSeparator
	}
	lines := bytes.Split(bytes.TrimRight(body, " \t\r\n"), []byte(separator))
	if err := accessOf(ctx).mayChange(); err != nil {
		return nil, err
	}
	switch {
	case a.Broker == nil && a.Apply == nil:
		return nil, errNoBroker
	case len(lines) > MaxCommands:
		return nil, timer.Invalid(timer.ReasonTooLarge, "there are more than %d lines", MaxCommands)
	}
	var results []*LineResult
	var messages []*message.Message
	var waiting []*LineResult // one for each message
	for i, line := range lines {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		r := &LineResult{Line: i + 1, Result: Published}
		results = append(results, r)
		m, id, err := a.command(ctx, line)
		if r.ID = id; err != nil {
			r.refuse(err)
			continue
		}
		messages, waiting = append(messages, m), append(waiting, r)
	}
	for i, err := range a.actions.publish(ctx, linesTimeout, messages...) {
		if err != nil {
			waiting[i].refuse(err)
		}
	}
	var answer bytes.Buffer
	for _, r := range results {
		_ = json.NewEncoder(&answer).Encode(r) // a buffer accepts all, and the type can be encoded
	}
	return &linesOutput{JSONLines, answer.Bytes()}, nil
}

// command returns the message of a command and its id, if it can be read. The error says why
// the command is not published for this request.
func (a *api) command(ctx context.Context, body []byte) (m *message.Message, id string, err error) {
	decoded, err := envelope.Decode(body)
	headers := envelope.CommandHeaders(decoded.Payload)
	if headers == nil {
		if err == nil {
			err = timer.Invalid(timer.ReasonUnknownType, "%s is not a command", timer.Quote(decoded.Type))
		}
		return m, decoded.ID, err
	}
	m = message.NewMessage(uuid.Must(uuid.NewV7()).String(), body)
	maps.Copy(m.Metadata, headers)
	return m, decoded.ID, a.allow(ctx, decoded.TenantID)
}

// refuse records why a line was not published: err is an error that [explain] knows.
func (r *LineResult) refuse(err error) {
	problem := explain(err)
	if r.Result, r.Detail = Refused, problem.Error(); problem.GetStatus() == http.StatusServiceUnavailable {
		r.Result = Failed
	}
	if invalid, ok := problem.(*Conflict); ok {
		r.Reason = timer.Reason(invalid.Reason)
	}
}

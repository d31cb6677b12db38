package poison_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// A kafkaAttack is a tenant that has all rules of the page for topics by tenant.
type kafkaAttack struct {
	*victim
	cluster   *kafkanode.Cluster
	confirmed atomic.Int64 // messages of the flood
	done      atomic.Int64 // attempts that the server has let pass
	refused   atomic.Int64 // attempts that it has not
}

// TestHostileTenantOnKafka has a tenant attack another one, with the rules of
// docs/brokers/kafka.md for topics by tenant.
func TestHostileTenantOnKafka(t *testing.T) {
	longtest.Skip(t, "starts Apache Kafka")
	c, err := kafkanode.Start(t.Context(), t.TempDir(), kafkanode.Guarded("", "service", attacker, victims))
	harness.Need(t, err)
	t.Cleanup(c.Kill)
	admin := kadm.NewClient(client(t, c, "admin"))
	permit := func(user, tenant string, who ...string) error {
		return kafkanode.Permit(t.Context(), admin, filepath.Join(pages, "kafka.md"), user, tenant, who...)
	}
	err = errors.Join(permit("service", "", "service, by tenant", "service, by tenant, optional"),
		permit(attacker, attacker, "a producer of acme", "a consumer of acme"), permit(victims, victims, "a producer of acme", "a consumer of acme"))
	stamped := "LogAppendTime"
	for _, tenant := range []string{attacker, victims} {
		_, made := admin.CreateTopic(t.Context(), 12, 1, map[string]*string{"message.timestamp.type": &stamped}, "svc."+tenant+".timer")
		err = errors.Join(err, made)
	}
	if err = errors.Join(err, limit(t, admin)); err != nil {
		t.Fatal(err)
	}

	v := newVictim(t, "TIMER_BROKER=kafka", "TIMER_BROKER_URL="+c.URL(), "TIMER_KAFKA_SASL=scram-sha-512", "TIMER_BROKER_USERNAME=service", "TIMER_BROKER_PASSWORD="+kafkanode.Password,
		"TIMER_RECEIPTS=true", "TIMER_COMMANDS_TOPIC=svc.{tenant}.timer", "TIMER_EVENTS_TOPIC=svc.{tenant}.events", "TIMER_RECEIPTS_TOPIC=svc.{tenant}.receipts", "TIMER_DEAD_LETTERS_TOPIC=svc.{tenant}.dlq")
	out := client(t, c, victims)
	v.publish = func(body []byte) error {
		return out.ProduceSync(t.Context(), &kgo.Record{Topic: "svc." + victims + ".timer", Key: []byte(uuid.NewString()), Value: body}).FirstErr()
	}
	v.read(client(t, c, victims, kgo.ConsumerGroup(victims+".billing"), kgo.ConsumeTopics("svc."+victims+".events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))

	a := &kafkaAttack{victim: v, cluster: c}
	v.suffers(a.flood, a.forge, a.pry, a.useMuch)
	t.Logf("%s sent %d commands; of its other attempts %d were let pass and %d refused", attacker, a.confirmed.Load(), a.done.Load(), a.refused.Load())
}

// limit gives the attacker the quota that the page shows.
func limit(t *testing.T, admin *kadm.Client) error {
	page, err := os.ReadFile(filepath.Join(pages, "kafka.md"))
	found := regexp.MustCompile(`--add-config ([a-z_]+)=(\d+)`).FindSubmatch(page)
	if err != nil || found == nil {
		t.Fatal("docs/brokers/kafka.md shows no quota", err)
	}
	rate, err := strconv.ParseFloat(string(found[2]), 64)
	if err != nil {
		return err
	}
	name := attacker
	_, err = admin.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &name}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: string(found[1]), Value: rate}},
	}})
	return err
}

// client returns a client of a user.
func client(t testing.TB, c *kafkanode.Cluster, user string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(c.As(user), more...)...)
	harness.Must(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// read has the victim get its events, from its first one on.
func (v *victim) read(in *kgo.Client) {
	v.Helper()
	v.due["first"] = time.Now().Add(time.Hour) // it is late: the consumer begins after it
	harness.Must(v, v.publish(scheduleOf(victims, "first", time.Now())))
	for {
		if records := in.PollFetches(v.Context()).Records(); len(records) > 0 || v.Context().Err() != nil {
			v.got(records[0].Value)
			break
		}
	}
	go func() {
		for v.Context().Err() == nil {
			for _, r := range in.PollFetches(v.Context()).Records() {
				v.got(r.Value)
			}
		}
	}()
}

// try does something until a server has answered.
func (a *kafkaAttack) try(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := f(ctx); err == nil {
		a.done.Add(1)
	} else if ctx.Err() == nil {
		a.refused.Add(1)
	}
}

// flood sends commands, valid and invalid, as fast as the server takes them.
func (a *kafkaAttack) flood(ctx context.Context) {
	out := client(a, a.cluster, attacker)
	for i := 0; ctx.Err() == nil; i++ {
		body := scheduleOf(attacker, uuid.NewString(), time.Now().Add(time.Hour))
		if i%10 == 0 {
			body = forgeries()[i/10%4]
		}
		out.Produce(ctx, &kgo.Record{Topic: "svc." + attacker + ".timer", Value: body}, func(_ *kgo.Record, err error) {
			if err == nil {
				a.confirmed.Add(1)
			}
		})
	}
}

// kafkaTopics are those of others.
var kafkaTopics = []string{"svc.globex.timer", "svc.globex.events", "svc.globex.receipts", "svc.globex.dlq", "svc._.dlq", "svc.acme.dlq", "timer.commands", "service.events", "__consumer_offsets"}

// forge publishes messages that look like those of the service, or like commands of globex.
func (a *kafkaAttack) forge(ctx context.Context) {
	out := client(a, a.cluster, attacker, kgo.UnknownTopicRetries(0))
	inTransaction := client(a, a.cluster, attacker, kgo.TransactionalID(attacker))
	for ctx.Err() == nil {
		for _, topic := range append(kafkaTopics, "svc.acme.events", "svc.acme.receipts") {
			for _, body := range forgeries() {
				a.try(ctx, func(ctx context.Context) error {
					return out.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("globex.call-1"), Value: body}).FirstErr()
				})
			}
		}
		a.try(ctx, func(ctx context.Context) error { // one that does not end would hold up who reads
			return errors.Join(inTransaction.BeginTransaction(), inTransaction.ProduceSync(ctx, &kgo.Record{Topic: "svc.acme.timer"}).FirstErr())
		})
	}
}

// pry tries to read and to change what is not for acme.
func (a *kafkaAttack) pry(ctx context.Context) {
	admin := kadm.NewClient(client(a, a.cluster, attacker))
	groups := []string{"timer-service.svc.*.timer", "timer-service.svc.*.timer.owner", "globex.billing"}
	for ctx.Err() == nil {
		for _, topic := range kafkaTopics {
			a.consume(ctx, kgo.ConsumeTopics(topic))
			a.try(ctx, func(ctx context.Context) error { return first(admin.DeleteTopic(ctx, topic)) })
			a.try(ctx, func(ctx context.Context) error {
				var all kadm.Offsets
				all.Add(kadm.Offset{Topic: topic, At: -1})
				done, err := admin.DeleteRecords(ctx, all)
				return errors.Join(err, done.Error())
			})
			a.try(ctx, func(ctx context.Context) error {
				retention := "1"
				done, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &retention}}, topic)
				for _, d := range done {
					err = errors.Join(err, d.Err)
				}
				return err
			})
			a.try(ctx, func(ctx context.Context) error {
				done, err := admin.ListEndOffsets(ctx, topic)
				return errors.Join(err, done.Error())
			})
			for _, group := range groups {
				a.try(ctx, func(ctx context.Context) error {
					var forged kadm.Offsets
					forged.Add(kadm.Offset{Topic: topic, At: 1 << 40, Metadata: "forged"})
					return admin.CommitAllOffsets(ctx, group, forged)
				})
			}
		}
		a.try(ctx, func(ctx context.Context) error { return first(admin.CreateTopic(ctx, 1, 1, nil, "svc.globex.q")) })
		for _, group := range groups {
			a.consume(ctx, kgo.ConsumerGroup(group), kgo.ConsumeTopics("svc.globex.events", "svc.globex.timer", "svc.acme.events"))
			a.try(ctx, func(ctx context.Context) error { return first(admin.DeleteGroup(ctx, group)) })
		}
		a.try(ctx, func(ctx context.Context) error {
			made, err := admin.CreateACLs(ctx, kadm.NewACLs().Allow("User:"+attacker).AllowHosts("*").Topics("svc.").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpAll))
			for _, m := range made {
				err = errors.Join(err, m.Err)
			}
			return err
		})
	}
}

func first[T any](_ T, err error) error { return err }

// consume notes the messages of others that it gets within a moment.
func (a *kafkaAttack) consume(ctx context.Context, opts ...kgo.Opt) {
	in, err := kgo.NewClient(append(append(a.cluster.As(attacker), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), opts...)...)
	if err != nil {
		a.Error(err)
		return
	}
	defer in.Close()
	a.try(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		fetches := in.PollFetches(ctx)
		for _, r := range fetches.Records() {
			a.hears(r.Topic + ": " + string(r.Value))
		}
		return fetches.Err()
	})
}

// useMuch reads its own topics from the beginning, with many connections.
func (a *kafkaAttack) useMuch(ctx context.Context) {
	for ctx.Err() == nil {
		var all []*kgo.Client
		for range 50 {
			in, err := kgo.NewClient(append(a.cluster.As(attacker), kgo.ConsumeTopics("svc.acme.events", "svc.acme.receipts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
			if err != nil {
				a.Error(err)
				return
			}
			all = append(all, in)
			_ = in.Ping(ctx)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		for _, in := range all {
			in.Close()
		}
	}
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	scramOf "github.com/twmb/franz-go/pkg/sasl/scram"
)

type franzSecured struct {
	*settings
	options            []kgo.Opt
	producer, consumer *kgo.Client
}

func securedFranz(given *settings) (securedClient, error) {
	made := &franzSecured{settings: given}
	made.options = []kgo.Opt{kgo.SeedBrokers(given.Bootstrap), kgo.ClientID(given.Name), kgo.AllowAutoTopicCreation()}
	config, err := given.tls()
	if config != nil {
		made.options = append(made.options, kgo.DialTLSConfig(config))
	}
	mechanisms := map[string]func() sasl.Mechanism{
		"PLAIN": func() sasl.Mechanism { return plain.Auth{User: given.User, Pass: given.Password}.AsMechanism() },
		"SCRAM-SHA-256": func() sasl.Mechanism {
			return scramOf.Auth{User: given.User, Pass: given.Password, IsToken: given.Tokenauth}.AsSha256Mechanism()
		},
		"SCRAM-SHA-512": func() sasl.Mechanism {
			return scramOf.Auth{User: given.User, Pass: given.Password, IsToken: given.Tokenauth}.AsSha512Mechanism()
		},
		"OAUTHBEARER": func() sasl.Mechanism { return oauth.Auth{Token: given.Bearer}.AsMechanism() },
	}
	if given.Mechanism != "" {
		made.options = append(made.options, kgo.SASL(mechanisms[given.Mechanism]()))
	}
	return made, err
}

func (f *franzSecured) Open() error {
	if f.producer != nil {
		f.producer.Close()
	}
	client, err := kgo.NewClient(append(f.options, kgo.TransactionalID(f.Name), kgo.DefaultProduceTopic(f.Topic))...)
	if err != nil {
		return err
	}
	f.producer = client
	limit, cancel := context.WithTimeout(background, refusedWithin)
	defer cancel()
	// It goes on trying for as long as it may; Ping says at once what stands in the way.
	if err := client.Ping(limit); err != nil {
		return err
	}
	_, _, err = client.ProducerID(limit)
	return err
}

func (f *franzSecured) Begin() error { return f.producer.BeginTransaction() }

func (f *franzSecured) Send(value string) error {
	limit, cancel := context.WithTimeout(background, wait)
	defer cancel()
	return f.producer.ProduceSync(limit, &kgo.Record{Value: []byte(value)}).FirstErr()
}

func (f *franzSecured) Commit() error { return f.producer.EndTransaction(background, kgo.TryCommit) }

func (f *franzSecured) Abort() error {
	if err := f.producer.AbortBufferedRecords(background); err != nil {
		return err
	}
	return f.producer.EndTransaction(background, kgo.TryAbort)
}

func (f *franzSecured) Read(atMost time.Duration) ([]string, error) {
	if f.consumer == nil {
		reading := []kgo.Opt{
			kgo.ConsumerGroup(f.Name), kgo.ConsumeTopics(f.Topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		}
		client, err := kgo.NewClient(append(f.options, reading...)...)
		if err != nil {
			return nil, err
		}
		f.consumer = client
	}
	limit, cancel := context.WithTimeout(background, atMost)
	defer cancel()
	fetches := f.consumer.PollFetches(limit)
	values := []string{}
	fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return values, failed.Err
		}
	}
	return values, nil
}

func (f *franzSecured) IsOwn(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || refusedTLS(err)
}

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type saramaSecured struct {
	*settings
	config   *sarama.Config
	producer sarama.SyncProducer
	member   *saramaMember
}

type bearer string

func (b bearer) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(b)}, nil
}

func securedSarama(given *settings) (securedClient, error) {
	config := config()
	config.ClientID = given.Name
	encrypted, err := given.tls()
	if encrypted != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, encrypted
	}
	if given.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(given.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = given.User, given.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return newScram(given.Mechanism, given.Tokenauth) }
	}
	if given.Bearer != "" {
		config.Net.SASL.TokenProvider = bearer(given.Bearer)
	}
	return &saramaSecured{settings: given, config: config}, err
}

func (s *saramaSecured) Open() error {
	if s.producer != nil {
		_ = s.producer.Close()
	}
	config := *s.config
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = s.Name
	var err error
	s.producer, err = sarama.NewSyncProducer([]string{s.Bootstrap}, &config)
	return err
}

func (s *saramaSecured) Begin() error { return s.producer.BeginTxn() }

func (s *saramaSecured) Send(value string) error {
	_, _, err := s.producer.SendMessage(&sarama.ProducerMessage{Topic: s.Topic, Value: sarama.StringEncoder(value)})
	return err
}

func (s *saramaSecured) Commit() error { return s.producer.CommitTxn() }

func (s *saramaSecured) Abort() error { return s.producer.AbortTxn() }

func (s *saramaSecured) Read(atMost time.Duration) ([]string, error) {
	if s.member == nil {
		config := *s.config
		config.Consumer.IsolationLevel = sarama.ReadCommitted
		group, err := sarama.NewConsumerGroup([]string{s.Bootstrap}, s.Name, &config)
		if err != nil {
			return nil, err
		}
		s.member = &saramaMember{topic: s.Topic, group: group}
		go s.consume(group)
	}
	records, err := s.member.Poll(atMost)
	s.member.mutex.Lock()
	s.member.err = nil // told once
	s.member.mutex.Unlock()
	values := []string{}
	for _, record := range records {
		values = append(values, string(record.Value))
	}
	return values, err
}

// consume joins again whatever ended a generation, as its users are told to do.
func (s *saramaSecured) consume(group sarama.ConsumerGroup) {
	go func() {
		for err := range group.Errors() {
			s.member.fail(err)
		}
	}()
	for {
		if err := group.Consume(context.Background(), []string{s.Topic}, s.member); err != nil {
			s.member.fail(err)
			time.Sleep(pause)
		}
	}
}

func (s *saramaSecured) IsOwn(err error) bool {
	return errors.Is(err, sarama.ErrSASLAuthenticationFailed) || refusedTLS(err) ||
		strings.Contains(err.Error(), sarama.ErrSASLAuthenticationFailed.Error())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	bootstrap []string
	client    sarama.Client
	admin     sarama.ClusterAdmin
}

func newSarama(bootstrap string) (Client, error) {
	made := &saramaClient{bootstrap: []string{bootstrap}}
	var err error
	if made.client, err = sarama.NewClient(made.bootstrap, config()); err != nil {
		return nil, err
	}
	made.admin, err = sarama.NewClusterAdminFromClient(made.client)
	return made, err
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	return config
}

// -- producer

type saramaProducer struct{ sarama.SyncProducer }

func (s *saramaClient) Producer(transactionalID, codec string) (Producer, error) {
	config := config()
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = transactionalID
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[codec]
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	return &saramaProducer{producer}, err
}

func (p *saramaProducer) Send(topic string, records ...Record) ([]int64, error) {
	asked := []*sarama.ProducerMessage{}
	for _, record := range records {
		one := &sarama.ProducerMessage{Topic: topic, Partition: record.Partition, Value: sarama.ByteEncoder(record.Value)}
		if record.Key != nil {
			one.Key = sarama.ByteEncoder(record.Key)
		}
		if record.Header != "" {
			one.Headers = []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(record.Header)}}
		}
		if record.TimestampMs != 0 {
			one.Timestamp = time.UnixMilli(record.TimestampMs)
		}
		asked = append(asked, one)
	}
	err := p.SendMessages(asked)
	offsets := []int64{}
	for _, record := range asked {
		offsets = append(offsets, record.Offset)
	}
	return offsets, err
}

func (p *saramaProducer) Begin() error { return p.BeginTxn() }

func (p *saramaProducer) Commit() error { return p.CommitTxn() }

func (p *saramaProducer) Abort() error { return p.AbortTxn() }

func (p *saramaProducer) Close() { _ = p.SyncProducer.Close() }

// -- consumer

// inbox collects what sarama's goroutines read.
type inbox struct {
	mutex   sync.Mutex
	records []Record
	err     error
}

func (b *inbox) take(message *sarama.ConsumerMessage) {
	record := Record{
		Partition: message.Partition, Offset: message.Offset, Key: message.Key, Value: message.Value,
		TimestampMs: message.Timestamp.UnixMilli(),
	}
	for _, header := range message.Headers {
		record.Header = string(header.Value)
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.records = append(b.records, record)
}

func (b *inbox) fail(err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.err = errors.Join(b.err, err)
}

func (b *inbox) Poll(atMost time.Duration) ([]Record, error) {
	for deadline := time.Now().Add(atMost); ; time.Sleep(5 * time.Millisecond) {
		b.mutex.Lock()
		records, err := b.records, b.err
		if len(records) > 0 || err != nil || time.Now().After(deadline) {
			b.records = nil
			b.mutex.Unlock()
			return records, err
		}
		b.mutex.Unlock()
	}
}

type saramaReader struct {
	inbox
	consumer   sarama.Consumer
	partitions []sarama.PartitionConsumer
}

func (s *saramaClient) Reader(topic string, partitions int32, from int64, committed bool) (Reader, error) {
	config := config()
	if committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(s.bootstrap, config)
	if err != nil {
		return nil, err
	}
	reader := &saramaReader{consumer: consumer}
	for partition := range partitions {
		one, err := consumer.ConsumePartition(topic, partition, from)
		if err != nil {
			return nil, err
		}
		reader.partitions = append(reader.partitions, one)
		go func() {
			for message := range one.Messages() {
				reader.take(message)
			}
		}()
		go func() {
			for failed := range one.Errors() {
				reader.fail(failed)
			}
		}()
	}
	return reader, nil
}

func (r *saramaReader) Close() {
	for _, partition := range r.partitions {
		partition.AsyncClose()
	}
	_ = r.consumer.Close()
}

type saramaMember struct {
	inbox
	group   sarama.ConsumerGroup
	stop    context.CancelFunc
	stopped chan struct{}
	session sarama.ConsumerGroupSession
	owned   []int32
	topic   string
}

func (s *saramaClient) Member(topic, group, protocol string) (Member, error) {
	if protocol != "classic" {
		return nil, Absent{"no KIP-848 in this client"}
	}
	config := config()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	made, err := sarama.NewConsumerGroup(s.bootstrap, group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(background)
	member := &saramaMember{group: made, stop: cancel, stopped: make(chan struct{}), topic: topic}
	go func() {
		defer close(member.stopped)
		for ctx.Err() == nil {
			if err := made.Consume(ctx, []string{topic}, member); err != nil && ctx.Err() == nil {
				member.fail(err)
				return
			}
		}
	}()
	go func() {
		for range made.Errors() { // also what is only a reason to join again
		}
	}()
	return member, nil
}

// Setup is called at the start of a generation.
func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session, m.owned = session, session.Claims()[m.topic]
	return nil
}

// Cleanup is called at its end.
func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.owned = nil
	return nil
}

// ConsumeClaim reads one partition for a generation.
func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.take(message)
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *saramaMember) Assignment() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.owned
}

func (m *saramaMember) Commit() error {
	m.mutex.Lock()
	session := m.session
	m.mutex.Unlock()
	session.Commit()
	return nil
}

func (m *saramaMember) Close() {
	m.stop()
	<-m.stopped
	_ = m.group.Close()
}

func (s *saramaClient) Copy(source, target, group, transactionalID string, count int, commits bool) error {
	member, err := s.Member(source, group, "classic")
	if err != nil {
		return err
	}
	defer member.Close()
	producer, err := s.Producer(transactionalID, "none")
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.Begin(); err != nil {
		return err
	}
	next := int64(0)
	for copied, deadline := 0, time.Now().Add(wait); copied < count; {
		found, err := member.Poll(time.Second)
		if err != nil {
			return err
		}
		copies := []Record{}
		for _, record := range found {
			copies = append(copies, Record{Value: record.Value})
			next = record.Offset + 1
		}
		if len(copies) > 0 {
			if _, err := producer.Send(target, copies...); err != nil {
				return err
			}
		}
		copied += len(found)
		if time.Now().After(deadline) {
			return fmt.Errorf("%d records came", copied)
		}
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{source: {{Partition: 0, Offset: next}}}
	if err := producer.(*saramaProducer).AddOffsetsToTxn(offsets, group); err != nil {
		return err
	}
	if commits {
		return producer.Commit()
	}
	return producer.Abort()
}

// -- admin

func (s *saramaClient) CreateTopic(topic string, partitions int32, configs map[string]string) error {
	pointers := map[string]*string{}
	for name, value := range configs {
		pointers[name] = &value
	}
	err := s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: pointers}, false)
	var known *sarama.TopicError
	if errors.As(err, &known) {
		return Refused{int16(known.Err)}
	}
	return err
}

func (s *saramaClient) HasTopic(topic string) (bool, error) {
	topics, err := s.admin.ListTopics()
	_, has := topics[topic]
	return has, err
}

func (s *saramaClient) PartitionCount(topic string) (int, error) {
	topics, err := s.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	return len(topics[0].Partitions), nil
}

func (s *saramaClient) CreatePartitions(topic string, count int) error {
	return s.admin.CreatePartitions(topic, int32(count), nil, false)
}

func (s *saramaClient) DeleteTopic(topic string) error { return s.admin.DeleteTopic(topic) }

func (s *saramaClient) config(kind sarama.ConfigResourceType, resource, name string) (string, error) {
	entries, err := s.admin.DescribeConfig(sarama.ConfigResource{Type: kind, Name: resource})
	for _, entry := range entries {
		if entry.Name == name {
			return entry.Value, err
		}
	}
	return "", errors.Join(err, fmt.Errorf("no config %s", name))
}

func (s *saramaClient) TopicConfig(topic, name string) (string, error) {
	return s.config(sarama.TopicResource, topic, name)
}

func (s *saramaClient) BrokerConfig(name string) (string, error) {
	return s.config(sarama.BrokerResource, fmt.Sprint(s.client.Brokers()[0].ID()), name)
}

func (s *saramaClient) AlterTopicConfig(topic, name, value string) error {
	change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	return s.admin.IncrementalAlterConfig(
		sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{name: change}, false)
}

func (s *saramaClient) HasGroup(group string) (bool, error) {
	groups, err := s.admin.ListConsumerGroups()
	_, has := groups[group]
	return has, err
}

func (s *saramaClient) GroupState(group string) (string, error) {
	groups, err := s.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return "", err
	}
	return groups[0].State, nil
}

func (s *saramaClient) Committed(group, topic string) (int64, error) {
	offsets, err := s.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return 0, err
	}
	return offsets.GetBlock(topic, 0).Offset, nil
}

func (s *saramaClient) DeleteGroup(group string) error { return s.admin.DeleteConsumerGroup(group) }

func (s *saramaClient) DeleteRecords(topic string, before int64) error {
	return s.admin.DeleteRecords(topic, map[int32]int64{0: before})
}

func (s *saramaClient) Bounds(topic string) (int64, int64, error) {
	first, err := s.client.GetOffset(topic, 0, sarama.OffsetOldest)
	end, err2 := s.client.GetOffset(topic, 0, sarama.OffsetNewest)
	return first, end, errors.Join(err, err2)
}

func (s *saramaClient) OffsetAt(topic string, timestampMs int64) (int64, error) {
	return s.client.GetOffset(topic, 0, timestampMs)
}

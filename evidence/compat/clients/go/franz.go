package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var background = context.Background()

type franz struct {
	bootstrap string
	admin     *kadm.Client
}

func newFranz(bootstrap string) (Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	return &franz{bootstrap, kadm.NewClient(client)}, err
}

func (f *franz) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(f.bootstrap), kgo.MetadataMinAge(100 * time.Millisecond)}, more...)
}

// -- producer

type franzProducer struct{ client *kgo.Client }

func producing(transactionalID, codec string) []kgo.Opt {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		}[codec]),
	}
	if transactionalID != "" {
		options = append(options, kgo.TransactionalID(transactionalID))
	}
	return options
}

func (f *franz) Producer(transactionalID, codec string) (Producer, error) {
	client, err := kgo.NewClient(f.options(producing(transactionalID, codec)...)...)
	if err != nil {
		return nil, err
	}
	// otherwise the producer id is asked for with the first record
	_, _, err = client.ProducerID(background)
	return &franzProducer{client}, err
}

func (p *franzProducer) Send(topic string, records ...Record) ([]int64, error) {
	asked := []*kgo.Record{}
	for _, record := range records {
		one := &kgo.Record{Topic: topic, Partition: record.Partition, Key: record.Key, Value: record.Value}
		if record.Header != "" {
			one.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte(record.Header)}}
		}
		if record.TimestampMs != 0 {
			one.Timestamp = time.UnixMilli(record.TimestampMs)
		}
		asked = append(asked, one)
	}
	ctx, cancel := context.WithTimeout(background, wait)
	defer cancel()
	offsets := []int64{}
	results := p.client.ProduceSync(ctx, asked...)
	for _, record := range asked {
		offsets = append(offsets, record.Offset)
	}
	return offsets, results.FirstErr()
}

func (p *franzProducer) Begin() error { return p.client.BeginTransaction() }

func (p *franzProducer) Commit() error { return p.client.EndTransaction(background, kgo.TryCommit) }

func (p *franzProducer) Abort() error {
	if err := p.client.AbortBufferedRecords(background); err != nil {
		return err
	}
	return p.client.EndTransaction(background, kgo.TryAbort)
}

func (p *franzProducer) Close() { p.client.Close() }

// -- consumer

type franzReader struct {
	client *kgo.Client
	topic  string
	mutex  sync.Mutex
	owned  map[int32]bool
}

func records(fetches kgo.Fetches) ([]Record, error) {
	found := []Record{}
	fetches.EachRecord(func(r *kgo.Record) {
		record := Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, TimestampMs: r.Timestamp.UnixMilli()}
		for _, header := range r.Headers {
			record.Header = string(header.Value)
		}
		found = append(found, record)
	})
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return found, fmt.Errorf("%s-%d: %w", failed.Topic, failed.Partition, failed.Err)
		}
	}
	return found, nil
}

func (r *franzReader) Poll(atMost time.Duration) ([]Record, error) {
	ctx, cancel := context.WithTimeout(background, atMost)
	defer cancel()
	return records(r.client.PollFetches(ctx))
}

func (r *franzReader) Close() { r.client.Close() }

func (r *franzReader) Assignment() []int32 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	owned := []int32{}
	for partition := range r.owned {
		owned = append(owned, partition)
	}
	slices.Sort(owned)
	return owned
}

func (r *franzReader) Commit() error { return r.client.CommitUncommittedOffsets(background) }

func (f *franz) Reader(topic string, partitions int32, from int64, committed bool) (Reader, error) {
	offsets := map[int32]kgo.Offset{}
	for partition := range partitions {
		offsets[partition] = kgo.NewOffset().At(from)
	}
	options := []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}), kgo.FetchMaxWait(100 * time.Millisecond)}
	if committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(f.options(options...)...)
	return &franzReader{client: client}, err
}

func consuming(topic, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
	}
}

func (f *franz) Member(topic, group, protocol string) (Member, error) {
	reader := &franzReader{topic: topic, owned: map[int32]bool{}}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			reader.mutex.Lock()
			defer reader.mutex.Unlock()
			for _, partition := range changed[topic] {
				if owns {
					reader.owned[partition] = true
				} else {
					delete(reader.owned, partition)
				}
			}
		}
	}
	options := append(consuming(topic, group),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	}
	client, err := kgo.NewClient(f.options(options...)...)
	reader.client = client
	return reader, err
}

func (f *franz) Copy(source, target, group, transactionalID string, count int, commits bool) error {
	options := append(consuming(source, group), producing(transactionalID, "none")...)
	session, err := kgo.NewGroupTransactSession(f.options(options...)...)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Begin(); err != nil {
		return err
	}
	for copied, deadline := 0, time.Now().Add(wait); copied < count; {
		ctx, cancel := context.WithTimeout(background, time.Second)
		fetches := session.PollFetches(ctx)
		cancel()
		found, err := records(fetches)
		if err != nil {
			return err
		}
		for _, record := range found {
			session.Produce(background, &kgo.Record{Topic: target, Value: record.Value}, nil)
		}
		copied += len(found)
		if time.Now().After(deadline) {
			return fmt.Errorf("%d records came", copied)
		}
	}
	if !commits {
		// an abort drops what is still buffered
		if err := session.Client().Flush(background); err != nil {
			return err
		}
	}
	committed, err := session.End(background, kgo.TransactionEndTry(commits))
	if err == nil && committed != commits {
		err = fmt.Errorf("committed: %v", committed)
	}
	return err
}

// -- admin

func refused(err error) error {
	var known *kerr.Error
	if errors.As(err, &known) {
		return Refused{known.Code}
	}
	return err
}

func (f *franz) CreateTopic(topic string, partitions int32, configs map[string]string) error {
	pointers := map[string]*string{}
	for name, value := range configs {
		pointers[name] = &value
	}
	_, err := f.admin.CreateTopic(background, partitions, 1, pointers, topic)
	return refused(err)
}

func (f *franz) HasTopic(topic string) (bool, error) {
	topics, err := f.admin.ListTopics(background)
	return topics.Has(topic), err
}

func (f *franz) PartitionCount(topic string) (int, error) {
	topics, err := f.admin.ListTopics(background, topic)
	return len(topics[topic].Partitions), err
}

func (f *franz) CreatePartitions(topic string, count int) error {
	responses, err := f.admin.UpdatePartitions(background, count, topic)
	return errors.Join(err, responses.Error())
}

func (f *franz) DeleteTopic(topic string) error {
	_, err := f.admin.DeleteTopic(background, topic)
	return err
}

func value(configs kadm.ResourceConfigs, err error, resource, name string) (string, error) {
	if err != nil {
		return "", err
	}
	described, err := configs.On(resource, nil)
	if err == nil {
		err = described.Err
	}
	for _, config := range described.Configs {
		if config.Key == name {
			return config.MaybeValue(), err
		}
	}
	return "", errors.Join(err, fmt.Errorf("no config %s", name))
}

func (f *franz) TopicConfig(topic, name string) (string, error) {
	configs, err := f.admin.DescribeTopicConfigs(background, topic)
	return value(configs, err, topic, name)
}

func (f *franz) AlterTopicConfig(topic, name, value string) error {
	responses, err := f.admin.AlterTopicConfigs(background, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	for _, response := range responses {
		err = errors.Join(err, response.Err)
	}
	return err
}

func (f *franz) BrokerConfig(name string) (string, error) {
	brokers, err := f.admin.ListBrokers(background)
	if err != nil {
		return "", err
	}
	id := brokers.NodeIDs()[0]
	configs, err := f.admin.DescribeBrokerConfigs(background, id)
	return value(configs, err, fmt.Sprint(id), name)
}

func (f *franz) HasGroup(group string) (bool, error) {
	groups, err := f.admin.ListGroups(background)
	return slices.Contains(groups.Groups(), group), err
}

func (f *franz) GroupState(group string) (string, error) {
	groups, err := f.admin.DescribeGroups(background, group)
	return groups[group].State, errors.Join(err, groups.Error())
}

func (f *franz) Committed(group, topic string) (int64, error) {
	offsets, err := f.admin.FetchOffsets(background, group)
	found, _ := offsets.Lookup(topic, 0)
	return found.At, errors.Join(err, found.Err)
}

func (f *franz) DeleteGroup(group string) error {
	response, err := f.admin.DeleteGroup(background, group)
	return errors.Join(err, response.Err)
}

func (f *franz) DeleteRecords(topic string, before int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, before, -1)
	responses, err := f.admin.DeleteRecords(background, offsets)
	return errors.Join(err, responses.Error())
}

func (f *franz) Bounds(topic string) (int64, int64, error) {
	first, err := f.admin.ListStartOffsets(background, topic)
	end, err2 := f.admin.ListEndOffsets(background, topic)
	one, _ := first.Lookup(topic, 0)
	other, _ := end.Lookup(topic, 0)
	return one.Offset, other.Offset, errors.Join(err, err2, one.Err, other.Err)
}

func (f *franz) OffsetAt(topic string, timestampMs int64) (int64, error) {
	offsets, err := f.admin.ListOffsetsAfterMilli(background, timestampMs, topic)
	found, _ := offsets.Lookup(topic, 0)
	return found.Offset, errors.Join(err, found.Err)
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

var order = []string{
	"records-none", "records-gzip", "records-snappy", "records-lz4", "records-zstd", "idempotent", "positions", "resume",
	"rebalance", "rebalance-848", "commit-abort", "interleaved", "held-back", "fenced", "offsets", "topics", "configs",
	"groups", "delete-records",
}

const topicAlreadyExists = 36

var timestampMs = time.Now().UnixMilli() - 60_000

// Checks runs the checks; a check stops at its first failure by panicking with it.
type Checks struct {
	client Client
	prefix string
}

type failure struct{ err error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func require(holds bool, format string, arguments ...any) {
	if !holds {
		panic(failure{fmt.Errorf(format, arguments...)})
	}
}

func eventually(what string, condition func() bool) {
	deadline := time.Now().Add(wait)
	for !condition() {
		require(time.Now().Before(deadline), "never: %s", what)
		time.Sleep(50 * time.Millisecond)
	}
}

// Run runs one check.
func (c *Checks) Run(name string) (err error) {
	defer func() {
		if stopped := recover(); stopped != nil {
			failed, is := stopped.(failure)
			if !is {
				panic(stopped)
			}
			err = failed.err
		}
	}()
	codec, isRecords := strings.CutPrefix(name, "records-")
	switch {
	case isRecords:
		c.records(codec)
	case name == "rebalance":
		c.rebalance("classic")
	case name == "rebalance-848":
		c.rebalance("consumer")
	default:
		map[string]func(){
			"idempotent": c.idempotent, "positions": c.positions, "resume": c.resume, "commit-abort": c.commitAbort,
			"interleaved": c.interleaved, "held-back": c.heldBack, "fenced": c.fenced, "offsets": c.offsets,
			"topics": c.topics, "configs": c.configs, "groups": c.groups, "delete-records": c.deleteRecords,
		}[name]()
	}
	return nil
}

func (c *Checks) topic(name string, partitions int32, configs map[string]string) string {
	topic := c.prefix + "-" + name
	must(c.client.CreateTopic(topic, partitions, configs))
	eventually("the new topic is listed", func() bool { return got(c.client.HasTopic(topic)) })
	return topic
}

func (c *Checks) producer(transactionalID string) Producer {
	if transactionalID != "" {
		transactionalID = c.prefix + "-" + transactionalID
	}
	return got(c.client.Producer(transactionalID, "none"))
}

func send(producer Producer, topic, value string) {
	got(producer.Send(topic, Record{Value: []byte(value)}))
}

func sendMany(producer Producer, topic string, partitions int, who string, first, end int) {
	records := []Record{}
	for index := first; index < end; index++ {
		records = append(records, Record{Partition: int32(index % partitions), Value: []byte(who + strconv.Itoa(index))})
	}
	got(producer.Send(topic, records...))
}

func pollUntil(reader Reader, count int) []Record {
	records := []Record{}
	eventually(fmt.Sprint(count, " records"), func() bool {
		records = append(records, got(reader.Poll(200*time.Millisecond))...)
		return len(records) >= count
	})
	return records
}

// read gives count records, and whatever else comes in the half second after them.
func (c *Checks) read(topic string, count int, committed bool, partitions int32) []Record {
	reader := got(c.client.Reader(topic, partitions, 0, committed))
	defer reader.Close()
	records := []Record{}
	for deadline := time.Now().Add(wait); len(records) < count && time.Now().Before(deadline); {
		records = append(records, got(reader.Poll(200*time.Millisecond))...)
	}
	for quiet := time.Now().Add(500 * time.Millisecond); time.Now().Before(quiet); {
		records = append(records, got(reader.Poll(100*time.Millisecond))...)
	}
	return records
}

func values(records []Record) []string {
	found := []string{}
	for _, record := range records {
		found = append(found, string(record.Value))
	}
	return found
}

func (c *Checks) expect(topic string, committed bool, expected ...string) {
	found := values(c.read(topic, len(expected), committed, 1))
	require(slices.Equal(found, expected), "found %v", found)
}

func expectOffsets(records []Record, expected ...int64) {
	found := []int64{}
	for _, record := range records {
		found = append(found, record.Offset)
	}
	require(slices.Equal(found, expected), "found %v", found)
}

func (c *Checks) records(codec string) {
	topic := c.topic("records-"+codec, 1, nil)
	value := bytes.Repeat([]byte("value "), 400)
	producer := got(c.client.Producer("", codec))
	defer producer.Close()
	offsets := got(producer.Send(topic, Record{Key: []byte("k"), Value: value, Header: "1", TimestampMs: timestampMs}))
	require(offsets[0] == 0, "offset %v", offsets)
	records := c.read(topic, 1, true, 1)
	require(len(records) == 1, "%d records", len(records))
	r := records[0]
	require(string(r.Key) == "k" && bytes.Equal(r.Value, value) && r.Header == "1", "%v", r)
	require(r.Offset == 0 && r.TimestampMs == timestampMs, "%v", r)
}

func (c *Checks) idempotent() {
	topic := c.topic("idempotent", 3, nil)
	producer := got(c.client.Producer("", "gzip"))
	defer producer.Close()
	for index := range 3 { // alone: ../scenario.py says why
		got(producer.Send(topic, Record{Partition: int32(index), Value: []byte(strconv.Itoa(index))}))
	}
	sendMany(producer, topic, 3, "", 3, 1000)
	next := []int{0, 1, 2}
	for _, record := range c.read(topic, 1000, true, 3) {
		require(string(record.Value) == strconv.Itoa(next[record.Partition]), "%v", record)
		next[record.Partition] += 3
	}
	require(slices.Equal(next, []int{1002, 1000, 1001}), "%v", next)
}

func (c *Checks) positions() {
	topic := c.topic("positions", 1, nil)
	producer := c.producer("")
	defer producer.Close()
	for index := range 10 {
		got(producer.Send(topic, Record{Value: []byte(strconv.Itoa(index)), TimestampMs: timestampMs + int64(index)}))
	}
	first, end, err := c.client.Bounds(topic)
	must(err)
	require(first == 0 && end == 10, "bounds %d %d", first, end)
	at := got(c.client.OffsetAt(topic, timestampMs+5))
	require(at == 5, "by time %d", at)
	reader := got(c.client.Reader(topic, 1, 7, false))
	defer reader.Close()
	expectOffsets(pollUntil(reader, 3), 7, 8, 9)
}

func (c *Checks) resume() {
	topic, group := c.topic("resume", 1, nil), c.prefix+"-resume"
	producer := c.producer("")
	defer producer.Close()
	sendMany(producer, topic, 1, "", 0, 10)
	first := got(c.client.Member(topic, group, "classic"))
	pollUntil(first, 10)
	must(first.Commit())
	first.Close()
	sendMany(producer, topic, 1, "", 10, 15)
	committed := got(c.client.Committed(group, topic))
	require(committed == 10, "committed %d", committed)
	second := got(c.client.Member(topic, group, "classic"))
	defer second.Close()
	expectOffsets(pollUntil(second, 5), 10, 11, 12, 13, 14)
}

func (c *Checks) rebalance(protocol string) {
	topic, group := c.topic("rebalance-"+protocol, 4, nil), c.prefix+"-rebalance-"+protocol
	seen := map[string]bool{}
	until := func(what string, condition func() bool, members ...Member) {
		eventually(what, func() bool {
			for _, member := range members {
				for _, record := range got(member.Poll(100 * time.Millisecond)) {
					seen[string(record.Value)] = true
				}
			}
			return condition()
		})
	}
	producer := c.producer("")
	defer producer.Close()
	sendMany(producer, topic, 4, "a", 0, 100)
	staying := got(c.client.Member(topic, group, protocol))
	defer staying.Close()
	until("one member has all", func() bool { return len(staying.Assignment()) == 4 }, staying)
	leaving := got(c.client.Member(topic, group, protocol))
	until("two members share", func() bool {
		return len(staying.Assignment()) == 2 && len(leaving.Assignment()) == 2
	}, staying, leaving)
	for _, partition := range staying.Assignment() {
		require(!slices.Contains(leaving.Assignment(), partition), "both have partition %d", partition)
	}
	sendMany(producer, topic, 4, "b", 0, 100)
	until("every record is read", func() bool { return len(seen) == 200 }, staying, leaving)
	leaving.Close()
	until("the one that stays has all again", func() bool { return len(staying.Assignment()) == 4 }, staying)
	sendMany(producer, topic, 4, "c", 0, 100)
	until("every record is read", func() bool { return len(seen) == 300 }, staying)
}

func (c *Checks) commitAbort() {
	topic := c.topic("commit-abort", 1, nil)
	producer := c.producer("commit-abort")
	defer producer.Close()
	for index := range 6 {
		must(producer.Begin())
		send(producer, topic, strconv.Itoa(index))
		if index%3 == 1 {
			must(producer.Abort())
		} else {
			must(producer.Commit())
		}
	}
	c.expect(topic, true, "0", "2", "3", "5")
	c.expect(topic, false, "0", "1", "2", "3", "4", "5")
}

func (c *Checks) interleaved() {
	topic := c.topic("interleaved", 1, nil)
	a, b, plain := c.producer("a"), c.producer("b"), c.producer("")
	defer a.Close()
	defer b.Close()
	defer plain.Close()
	expected := []string{}
	for index := range 4 {
		must(a.Begin())
		must(b.Begin())
		for _, part := range []string{"x", "y"} {
			name := strconv.Itoa(index) + part
			send(a, topic, "a"+name)
			send(b, topic, "b"+name)
			send(plain, topic, "p"+name)
			expected = append(expected, []string{"b", "a"}[index%2]+name, "p"+name)
		}
		if index%2 == 1 {
			must(a.Commit())
			must(b.Abort())
		} else {
			must(a.Abort())
			must(b.Commit())
		}
	}
	c.expect(topic, true, expected...)
}

func (c *Checks) heldBack() {
	topic := c.topic("held-back", 1, nil)
	producer, plain := c.producer("held-back"), c.producer("")
	defer producer.Close()
	defer plain.Close()
	send(plain, topic, "before")
	must(producer.Begin())
	send(producer, topic, "open")
	send(plain, topic, "after")
	c.expect(topic, true, "before")
	c.expect(topic, false, "before", "open", "after")
	must(producer.Commit())
	c.expect(topic, true, "before", "open", "after")
}

func (c *Checks) fenced() {
	topic := c.topic("fenced", 1, nil)
	older := c.producer("fenced")
	must(older.Begin())
	send(older, topic, "older")
	newer := c.producer("fenced")
	must(newer.Begin())
	send(newer, topic, "newer")
	must(newer.Commit())
	newer.Close()
	err := older.Commit()
	require(err != nil, "the older instance could commit")
	fmt.Fprintln(os.Stderr, "fenced:", err)
	older.Close()
	c.expect(topic, true, "newer")
}

func (c *Checks) offsets() {
	source, target, group := c.topic("offsets", 1, nil), c.topic("offsets-copied", 1, nil), c.prefix+"-offsets"
	producer := c.producer("")
	defer producer.Close()
	sendMany(producer, source, 1, "", 0, 20)
	expected := []string{}
	for index := range 20 {
		expected = append(expected, strconv.Itoa(index))
	}
	for _, commits := range []bool{false, true} {
		must(c.client.Copy(source, target, group, c.prefix+"-offsets", 20, commits))
	}
	c.expect(target, true, expected...)
	c.expect(target, false, append(expected, expected...)...)
	eventually("offset 20 is committed", func() bool { return got(c.client.Committed(group, source)) == 20 })
}

func (c *Checks) topics() {
	topic := c.topic("topics", 3, map[string]string{"retention.ms": "12345678"})
	require(got(c.client.PartitionCount(topic)) == 3, "three partitions")
	err := c.client.CreateTopic(topic, 3, nil)
	require(err == Refused{topicAlreadyExists}, "created twice: %v", err)
	must(c.client.CreatePartitions(topic, 5))
	eventually("five partitions", func() bool { return got(c.client.PartitionCount(topic)) == 5 })
	must(c.client.DeleteTopic(topic))
	eventually("the topic is gone", func() bool { return !got(c.client.HasTopic(topic)) })
}

func (c *Checks) configs() {
	topic := c.topic("configs", 1, map[string]string{"retention.ms": "12345678"})
	require(got(c.client.TopicConfig(topic, "retention.ms")) == "12345678", "retention.ms")
	must(c.client.AlterTopicConfig(topic, "max.message.bytes", "54321"))
	eventually("the new value", func() bool { return got(c.client.TopicConfig(topic, "max.message.bytes")) == "54321" })
	_, err := strconv.Atoi(got(c.client.BrokerConfig("transactional.id.expiration.ms")))
	must(err)
}

func (c *Checks) groups() {
	topic, group := c.topic("groups", 1, nil), c.prefix+"-groups"
	producer := c.producer("")
	defer producer.Close()
	sendMany(producer, topic, 1, "x", 0, 3)
	member := got(c.client.Member(topic, group, "classic"))
	pollUntil(member, 3)
	must(member.Commit())
	state := got(c.client.GroupState(group))
	require(state == "Stable", "state %s", state)
	require(got(c.client.Committed(group, topic)) == 3, "committed")
	member.Close()
	eventually("the group is empty", func() bool { return got(c.client.GroupState(group)) == "Empty" })
	require(got(c.client.HasGroup(group)), "listed")
	must(c.client.DeleteGroup(group))
	eventually("the group is gone", func() bool { return !got(c.client.HasGroup(group)) })
}

func (c *Checks) deleteRecords() {
	topic := c.topic("delete-records", 1, nil)
	producer := c.producer("")
	defer producer.Close()
	sendMany(producer, topic, 1, "", 0, 10)
	must(c.client.DeleteRecords(topic, 4))
	eventually("the log starts at 4", func() bool {
		first, end, err := c.client.Bounds(topic)
		must(err)
		return first == 4 && end == 10
	})
	reader := got(c.client.Reader(topic, 1, 4, true))
	defer reader.Close()
	expectOffsets(pollUntil(reader, 6), 4, 5, 6, 7, 8, 9)
}

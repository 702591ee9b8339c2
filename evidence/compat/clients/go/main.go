// Go clients: the checks of ../checks.py in terms of an adapter each (franz.go, sarama.go).
// `program CLIENT BOOTSTRAP PREFIX [CHECK ...]`, a JSON line per check.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

const wait = 30 * time.Second

// Record is what is sent and what is read.
type Record struct {
	Partition   int32
	Offset      int64
	Key, Value  []byte
	Header      string // the value of header "h"
	TimestampMs int64
}

// Producer sends and waits. A transactional one has its producer id when it is made.
type Producer interface {
	Send(topic string, records ...Record) (offsets []int64, err error)
	Begin() error
	Commit() error
	Abort() error
	Close()
}

// Reader gives what has come since the last call, waiting for at most that long.
type Reader interface {
	Poll(atMost time.Duration) ([]Record, error)
	Close()
}

// Member is a reader in a group. Commit stores the offsets behind what was polled.
type Member interface {
	Reader
	Assignment() []int32
	Commit() error
}

// Refused is an error of the broker, by its number in Kafka's protocol.
type Refused struct{ Code int16 }

func (r Refused) Error() string { return fmt.Sprintf("error %d", r.Code) }

// Client is one library.
type Client interface {
	Producer(transactionalID, codec string) (Producer, error)
	Reader(topic string, partitions int32, from int64, committed bool) (Reader, error)
	Member(topic, group, protocol string) (Member, error)
	// Copy reads count records of the source as a member of the group, and writes them and their offsets in one transaction.
	Copy(source, target, group, transactionalID string, count int, commits bool) error
	CreateTopic(topic string, partitions int32, configs map[string]string) error
	HasTopic(topic string) (bool, error)
	PartitionCount(topic string) (int, error)
	CreatePartitions(topic string, count int) error
	DeleteTopic(topic string) error
	TopicConfig(topic, name string) (string, error)
	AlterTopicConfig(topic, name, value string) error
	BrokerConfig(name string) (string, error)
	HasGroup(group string) (bool, error)
	GroupState(group string) (string, error)
	Committed(group, topic string) (int64, error)
	DeleteGroup(group string) error
	DeleteRecords(topic string, before int64) error
	Bounds(topic string) (first, end int64, err error)
	OffsetAt(topic string, timestampMs int64) (int64, error)
}

// Absent is what a client has no call for.
type Absent struct{ Reason string }

func (a Absent) Error() string { return a.Reason }

type outcome struct {
	Check   string  `json:"check"`
	Result  string  `json:"result"`
	Detail  string  `json:"detail"`
	Seconds float64 `json:"seconds"`
}

func main() {
	if os.Args[1] == "secured" {
		secured(os.Args[2])
		return
	}
	name, bootstrap, prefix := os.Args[1], os.Args[2], os.Args[3]
	client, err := map[string]func(string) (Client, error){"franz-go": newFranz, "sarama": newSarama}[name](bootstrap)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	checks := &Checks{client: client, prefix: prefix}
	names := os.Args[4:]
	if len(names) == 0 {
		names = order
	}
	for _, check := range names {
		began, result, detail := time.Now(), "passed", ""
		err := checks.Run(check)
		var absent Absent
		if errors.As(err, &absent) {
			result, detail = "absent", absent.Reason
		} else if err != nil {
			result, detail = "failed", err.Error()
		}
		said, _ := json.Marshal(outcome{check, result, detail, time.Since(began).Round(10 * time.Millisecond).Seconds()})
		fmt.Println(string(said))
	}
}

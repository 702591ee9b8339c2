package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	refusedWithin = 20 * time.Second
	pause         = 50 * time.Millisecond
)

// settings are what ../security/ways.py gives: a step, and the way in.
type settings struct {
	Step, Bootstrap, Protocol, Mechanism, Topic, Name string
	CA, Certificate, Key, User, Password, Bearer      string
	Seconds                                           float64
	Tokenauth                                         bool
}

func (s *settings) tls() (*tls.Config, error) {
	if s.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// securedClient is one library by one way: a transactional producer, and a member of a group that reads committed records.
type securedClient interface {
	// Open makes a producer that is ready (InitProducerId), in place of the one before.
	Open() error
	Begin() error
	Send(value string) error
	Commit() error
	Abort() error
	Read(atMost time.Duration) ([]string, error)
	// IsOwn says whether an error is the library's for a login or a handshake that failed.
	IsOwn(err error) bool
}

// refusedTLS is how crypto/tls says that one side did not believe the other.
func refusedTLS(err error) bool {
	var unbelieved *tls.CertificateVerificationError
	return errors.As(err, &unbelieved) || strings.Contains(err.Error(), "remote error: tls: ") ||
		strings.Contains(err.Error(), "x509: certificate signed by unknown authority")
}

type securedOutcome struct {
	Result    string   `json:"result"`
	Detail    string   `json:"detail"`
	Committed int      `json:"committed"`
	Errors    []string `json:"errors"`
}

type securedRun struct {
	settings
	client    securedClient
	found     []string
	errors    []string
	committed []string
	unknown   []string
}

func secured(name string) {
	run := &securedRun{errors: []string{}}
	outcome := securedOutcome{Result: "passed"}
	err := json.NewDecoder(os.Stdin).Decode(&run.settings)
	if err == nil {
		run.client, err = map[string]func(*settings) (securedClient, error){
			"franz-go": securedFranz, "sarama": securedSarama,
		}[name](&run.settings)
	}
	if err == nil {
		switch run.Step {
		case "transaction":
			err = run.transaction()
		case "wrong":
			outcome.Result, outcome.Detail = run.wrong()
		default:
			err = run.load()
		}
	}
	if err != nil {
		outcome.Result, outcome.Detail = "failed", err.Error()
	}
	outcome.Committed, outcome.Errors = len(run.committed), run.errors
	said, _ := json.Marshal(outcome)
	fmt.Println(string(said))
}

func (r *securedRun) one(value string, end func() error) error {
	if err := r.client.Begin(); err != nil {
		return err
	}
	if err := r.client.Send(value); err != nil {
		return err
	}
	return end()
}

func (r *securedRun) arrived(wanted []string) error {
	deadline := time.Now().Add(wait)
	for slices.ContainsFunc(wanted, func(value string) bool { return !slices.Contains(r.found, value) }) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d records did not come, %d did", len(wanted), len(r.found))
		}
		r.read()
	}
	return nil
}

func (r *securedRun) read() {
	found, err := r.client.Read(pause)
	r.found = append(r.found, found...)
	if err != nil {
		r.tell("reading: " + err.Error())
	}
}

func (r *securedRun) tell(said string) {
	if !slices.Contains(r.errors, said) {
		r.errors = append(r.errors, said)
	}
}

func (r *securedRun) transaction() error {
	if err := r.client.Open(); err != nil {
		return err
	}
	if err := r.one("aborted", r.client.Abort); err != nil {
		return err
	}
	if err := r.one("committed", r.client.Commit); err != nil {
		return err
	}
	if err := r.arrived([]string{"committed"}); err != nil {
		return err
	}
	if len(r.found) != 1 {
		return fmt.Errorf("read %v", r.found)
	}
	return nil
}

func (r *securedRun) wrong() (string, string) {
	began, done := time.Now(), make(chan error, 1)
	go func() { done <- r.client.Open() }()
	select {
	case err := <-done:
		if err == nil {
			return "failed", "it came in"
		}
		isLate := time.Since(began) >= refusedWithin || errors.Is(err, context.DeadlineExceeded)
		if r.client.IsOwn(err) && !isLate {
			return "passed", err.Error()
		}
		return "refused", err.Error()
	case <-time.After(refusedWithin + 5*time.Second):
		return "refused", fmt.Sprintf("nothing returned in %v", refusedWithin)
	}
}

func (r *securedRun) load() error {
	if err := r.client.Open(); err != nil {
		return err
	}
	until := time.Now().Add(time.Duration(r.Seconds * float64(time.Second)))
	for number := 0; time.Now().Before(until); number++ {
		value := fmt.Sprint(number)
		if err := r.one(value, r.client.Commit); err == nil {
			r.committed = append(r.committed, value)
		} else {
			r.tell(err.Error())
			r.unknown = append(r.unknown, value)
			if err := r.client.Abort(); err != nil {
				r.tell("aborting: " + err.Error())
				if err := r.client.Open(); err != nil {
					return err
				}
			}
		}
		r.read()
	}
	if err := r.arrived(r.committed); err != nil {
		return err
	}
	sure := slices.DeleteFunc(r.found, func(value string) bool { return slices.Contains(r.unknown, value) })
	if !slices.Equal(sure, r.committed) {
		return fmt.Errorf("committed %d, read %d, not the same", len(r.committed), len(sure))
	}
	if float64(len(sure)) <= r.Seconds/2 {
		return fmt.Errorf("only %d transactions", len(sure))
	}
	return nil
}

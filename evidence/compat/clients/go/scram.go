package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// scram is what sarama leaves to its user: a client's side of RFC 5802, with the extension `tokenauth` of KIP-48.
type scram struct {
	hash                 func() hash.Hash
	tokenauth            bool
	user, password       string
	nonce, first, server string
	step                 int
}

func newScram(mechanism string, tokenauth bool) *scram {
	hashes := map[string]func() hash.Hash{"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New}
	return &scram{hash: hashes[mechanism], tokenauth: tokenauth}
}

func (s *scram) Begin(user, password, _ string) error {
	random := make([]byte, 24)
	_, err := rand.Read(random)
	s.user, s.password, s.nonce, s.step = user, password, base64.StdEncoding.EncodeToString(random), 0
	return err
}

func (s *scram) Done() bool { return s.step == 3 }

// Step answers one message of the broker.
func (s *scram) Step(challenge string) (string, error) {
	s.step++
	switch s.step {
	case 1:
		s.first = fmt.Sprintf("n=%s,r=%s", strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.user), s.nonce)
		if s.tokenauth {
			s.first += ",tokenauth=true"
		}
		return "n,," + s.first, nil
	case 2:
		return s.proof(challenge)
	default:
		if challenge != s.server {
			return "", errors.New("the broker does not know the password: " + challenge)
		}
		return "", nil
	}
}

func (s *scram) proof(challenge string) (string, error) {
	parts := map[string]string{}
	for _, part := range strings.Split(challenge, ",") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	iterations, err := strconv.Atoi(parts["i"])
	if err != nil || !strings.HasPrefix(parts["r"], s.nonce) {
		return "", errors.New("no challenge: " + challenge)
	}
	salt, err := base64.StdEncoding.DecodeString(parts["s"])
	if err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, iterations, s.hash().Size())
	if err != nil {
		return "", err
	}
	final := "c=biws,r=" + parts["r"]
	message := s.first + "," + challenge + "," + final
	clientKey := s.mac(salted, "Client Key")
	stored := s.hash()
	stored.Write(clientKey)
	proof := s.mac(stored.Sum(nil), message)
	for index := range proof {
		proof[index] ^= clientKey[index]
	}
	s.server = "v=" + base64.StdEncoding.EncodeToString(s.mac(s.mac(salted, "Server Key"), message))
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

func (s *scram) mac(key []byte, text string) []byte {
	mac := hmac.New(s.hash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

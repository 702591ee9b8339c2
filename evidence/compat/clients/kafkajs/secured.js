// kafkajs over secured listeners: a step of ../security/ways.py. Settings as JSON on stdin, a JSON line back.
'use strict'

const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

const given = JSON.parse(fs.readFileSync(0, 'utf8'))
const WAIT_MS = 30000
const REFUSED_WITHIN_MS = 20000
const PAUSE_MS = 50
const OWN = ['KafkaJSSASLAuthenticationError', 'KafkaJSUnsupportedSaslMechanismInHandshakeError']
// It has no class of its own for TLS: the message has to name the certificate.
const isOfTls = error => error.name === 'KafkaJSConnectionError' && /certificate/.test(error.message)
const told = []
// What it logs as an error and does not throw.
const logCreator = () => ({ level, log }) => {
  console.error(level, log.message, log.error || '')
}

function security() {
  const config = { clientId: given.name, brokers: [given.bootstrap], logLevel: logLevel.INFO, logCreator }
  // Its own default begins a session again ten seconds before the end; these are two seconds long.
  config.reauthenticationThreshold = 500
  if (given.protocol.endsWith('SSL')) {
    config.ssl = { ca: [fs.readFileSync(given.ca)] }
    if (given.certificate) Object.assign(config.ssl, { cert: fs.readFileSync(given.certificate), key: fs.readFileSync(given.key) })
  }
  if (given.mechanism === 'OAUTHBEARER') {
    config.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: given.bearer }) }
  } else if (given.mechanism) {
    config.sasl = { mechanism: given.mechanism.toLowerCase(), username: given.user, password: given.password }
  }
  return config
}

const said = error => `${error.name}: ${error.message}${error.cause ? ` (${said(error.cause)})` : ''}`
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
function require_(holds, what) {
  if (!holds) throw new Error(what)
}

const kafka = new Kafka(security())
const found = []
let producer
let consumer

async function open() {
  if (producer) await producer.disconnect()
  producer = kafka.producer({ transactionalId: given.name, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
}
const send = (to, value) => to.send({ topic: given.topic, acks: -1, messages: [{ value }] })

async function subscribe() {
  consumer = kafka.consumer({ groupId: given.name, readUncommitted: false, maxWaitTimeInMs: 100 })
  consumer.on(consumer.events.CRASH, ({ payload }) => told.push(`reading: ${said(payload.error)}`))
  await consumer.connect()
  await consumer.subscribe({ topics: [given.topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => found.push(message.value.toString()) })
}
async function arrived(wanted) {
  for (const until = Date.now() + WAIT_MS; !wanted.every(value => found.includes(value)); await sleep(PAUSE_MS)) {
    require_(Date.now() < until, `${wanted.length} records did not come, ${found.length} did`)
  }
}

async function transaction() {
  await open()
  const aborted = await producer.transaction()
  await send(aborted, 'aborted')
  await aborted.abort()
  const committed = await producer.transaction()
  await send(committed, 'committed')
  await committed.commit()
  await subscribe()
  await arrived(['committed'])
  require_(JSON.stringify(found) === '["committed"]', JSON.stringify(found))
  return {}
}

async function wrong() {
  const late = Symbol('late')
  try {
    // With a wrong secret it is connect() that has to say so.
    if ((await Promise.race([open(), sleep(REFUSED_WITHIN_MS).then(() => late)])) === late) {
      return { result: 'refused', detail: `nothing thrown in ${REFUSED_WITHIN_MS / 1000} s` }
    }
  } catch (error) {
    let own = false
    for (let each = error; each; each = each.cause) own = own || OWN.includes(each.name) || isOfTls(each)
    return { result: own ? 'passed' : 'refused', detail: said(error) }
  }
  return { result: 'failed', detail: 'it came in' }
}

async function load() {
  await open()
  // Its consumer wants a topic that is there.
  const first = await producer.transaction()
  await send(first, '0')
  await first.commit()
  await subscribe()
  const committed = ['0']
  const unknown = []
  const until = Date.now() + given.seconds * 1000
  for (let number = 1; Date.now() < until; number++) {
    let current
    try {
      current = await producer.transaction()
      await send(current, String(number))
      await current.commit()
      committed.push(String(number))
    } catch (error) {
      told.push(said(error))
      unknown.push(String(number))
      try {
        if (current && current.isActive()) await current.abort()
      } catch (second) {
        told.push(`aborting: ${said(second)}`)
        await open()
      }
    }
    await sleep(PAUSE_MS / 10)
  }
  await arrived(committed)
  const sure = found.filter(value => !unknown.includes(value))
  require_(JSON.stringify(sure) === JSON.stringify(committed), `committed ${committed.length}, read ${sure.length}, not the same`)
  require_(committed.length > given.seconds / 2, `only ${committed.length} transactions`)
  return { committed: committed.length }
}

async function main() {
  let outcome
  try {
    outcome = given.tokenauth
      ? { result: 'absent', detail: 'SCRAM without the extension `tokenauth` of KIP-48' }
      : await { transaction, wrong, load }[given.step]()
  } catch (error) {
    console.error(error)
    outcome = { result: 'failed', detail: said(error) }
  }
  console.log(JSON.stringify({ result: 'passed', detail: '', committed: 0, errors: [...new Set(told)], ...outcome }))
  process.exit(0)
}
main()

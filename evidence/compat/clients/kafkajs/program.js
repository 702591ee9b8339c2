// kafkajs: the checks of ../checks.py. `node program.js BOOTSTRAP PREFIX [CHECK ...]`, a JSON line per check.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const [bootstrap, prefix, ...asked] = process.argv.slice(2)
const WAIT_MS = 30000
const TIMESTAMP_MS = Date.now() - 60000
const COMMITTED = false // readUncommitted
const UNCOMMITTED = true

const logCreator = () => ({ namespace, log }) =>
  console.error(namespace, log.message, log.error || '')
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.WARN, logCreator, retry: { initialRetryTime: 50, retries: 10 } })
const admin = kafka.admin()

class Absent extends Error {}

function require_(holds, what) {
  if (!holds) throw new Error(typeof what === 'string' ? what : JSON.stringify(what))
}
function expect(expected, found) {
  require_(JSON.stringify(expected) === JSON.stringify(found), found)
}
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
async function eventually(condition, what) {
  const deadline = Date.now() + WAIT_MS
  while (!(await condition())) {
    require_(Date.now() < deadline, `never: ${what}`)
    await sleep(50)
  }
}

async function topic(name, numPartitions = 1, configs = {}) {
  const full = `${prefix}-${name}`
  const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
  await admin.createTopics({ topics: [{ topic: full, numPartitions, replicationFactor: 1, configEntries }] })
  await eventually(async () => (await admin.listTopics()).includes(full), 'the new topic is listed')
  return full
}

async function withProducer(transactionalId, use) {
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: () => ({ message }) => message.partition,
    ...(transactionalId ? { transactionalId: `${prefix}-${transactionalId}` } : {}),
  })
  await producer.connect()
  try {
    return await use(producer)
  } finally {
    await producer.disconnect()
  }
}
const send = (to, full, value, partition = 0) =>
  to.send({ topic: full, acks: -1, messages: [{ partition, value }] })
const sendMany = (to, full, partitions, who, first, end) =>
  to.send({
    topic: full,
    acks: -1,
    messages: Array.from({ length: end - first }, (_, i) => ({ partition: (first + i) % partitions, value: `${who}${first + i}` })),
  })

// A member of a group; kafkajs has no other kind of consumer. `assignment` and `records` follow what it does.
async function member(full, groupId, readUncommitted = COMMITTED) {
  const consumer = kafka.consumer({ groupId, readUncommitted, sessionTimeout: 6000, heartbeatInterval: 300, rebalanceTimeout: 10000, maxWaitTimeInMs: 100 })
  const it = { consumer, assignment: [], records: [], close: () => consumer.disconnect() }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => (it.assignment = payload.memberAssignment[full] || []))
  consumer.on(consumer.events.REBALANCING, () => (it.assignment = []))
  await consumer.connect()
  await consumer.subscribe({ topics: [full], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => it.records.push({ partition, ...message, value: message.value }),
  })
  return it
}

let readers = 0
// `count` records, and whatever else comes in the half second after them
async function read(full, count, readUncommitted = COMMITTED) {
  const it = await member(full, `${prefix}-reader-${readers++}`, readUncommitted)
  try {
    const deadline = Date.now() + WAIT_MS
    while (it.records.length < count && Date.now() < deadline) await sleep(50)
    await sleep(500)
    return it.records
  } finally {
    await it.close()
  }
}
const values = async (full, count, readUncommitted) =>
  (await read(full, count, readUncommitted)).map(record => record.value.toString())

async function records(codec) {
  const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }[codec]
  if (compression === undefined) throw new Absent('no such codec in this client')
  const full = await topic(`records-${codec}`)
  const value = 'value '.repeat(400)
  const message = { partition: 0, key: 'k', value, headers: { h: '1' }, timestamp: String(TIMESTAMP_MS) }
  const [sent] = await withProducer(null, to => to.send({ topic: full, acks: -1, compression, messages: [message] }))
  expect('0', sent.baseOffset)
  const found = await read(full, 1)
  require_(found.length === 1, found)
  const [record] = found
  expect(['k', value, '1', '0', String(TIMESTAMP_MS)],
    [record.key.toString(), record.value.toString(), record.headers.h.toString(), record.offset, record.timestamp])
}

async function idempotent() {
  const full = await topic('idempotent', 3)
  await withProducer(null, to => sendMany(to, full, 3, '', 0, 1000))
  const found = await read(full, 1000)
  for (const partition of [0, 1, 2]) {
    const got = found.filter(record => record.partition === partition).map(record => Number(record.value.toString()))
    expect(Array.from({ length: partition === 0 ? 334 : 333 }, (_, i) => partition + 3 * i), got)
  }
}

async function positions() {
  const full = await topic('positions')
  await withProducer(null, async to => {
    for (let i = 0; i < 10; i++) {
      await to.send({ topic: full, acks: -1, messages: [{ partition: 0, value: String(i), timestamp: String(TIMESTAMP_MS + i) }] })
    }
  })
  const [{ low, high }] = await admin.fetchTopicOffsets(full)
  expect(['0', '10'], [low, high])
  expect('5', (await admin.fetchTopicOffsetsByTimestamp(full, TIMESTAMP_MS + 5))[0].offset)
  const it = await member(full, `${prefix}-positions`, UNCOMMITTED)
  try {
    await eventually(() => it.records.length === 10, 'ten records')
    it.consumer.seek({ topic: full, partition: 0, offset: '7' })
    await eventually(() => it.records.length === 13, 'three records after a seek')
    expect(['7', '8', '9'], it.records.slice(10).map(record => record.offset))
  } finally {
    await it.close()
  }
}

const committed = async (groupId, full) =>
  Number((await admin.fetchOffsets({ groupId, topics: [full] }))[0].partitions.find(each => each.partition === 0).offset)

async function resume() {
  const full = await topic('resume')
  const groupId = `${prefix}-resume`
  await withProducer(null, async to => {
    await sendMany(to, full, 1, '', 0, 10)
    const first = await member(full, groupId)
    try {
      await eventually(() => first.records.length === 10, 'ten records')
      await first.consumer.commitOffsets([{ topic: full, partition: 0, offset: '10' }])
    } finally {
      await first.close()
    }
    await sendMany(to, full, 1, '', 10, 15)
  })
  expect(10, await committed(groupId, full))
  const second = await member(full, groupId)
  try {
    await eventually(() => second.records.length === 5, 'five records')
    expect(['10', '11', '12', '13', '14'], second.records.map(record => record.offset))
  } finally {
    await second.close()
  }
}

async function rebalance() {
  const full = await topic('rebalance', 4)
  const groupId = `${prefix}-rebalance`
  const distinct = (...members) => new Set(members.flatMap(it => it.records.map(record => record.value.toString()))).size
  await withProducer(null, async to => {
    await sendMany(to, full, 4, 'a', 0, 100)
    const staying = await member(full, groupId)
    try {
      await eventually(() => staying.assignment.length === 4, 'one member has all')
      const leaving = await member(full, groupId)
      try {
        await eventually(() => staying.assignment.length === 2 && leaving.assignment.length === 2, 'two members share')
        expect(4, new Set([...staying.assignment, ...leaving.assignment]).size)
        await sendMany(to, full, 4, 'b', 0, 100)
        await eventually(() => distinct(staying, leaving) === 200, 'every record is read')
      } finally {
        await leaving.close()
      }
      await eventually(() => staying.assignment.length === 4, 'the one that stays has all again')
      await sendMany(to, full, 4, 'c', 0, 100)
      await eventually(() => distinct(staying, leaving) === 300, 'every record is read')
    } finally {
      await staying.close()
    }
  })
}

async function commitAbort() {
  const full = await topic('commit-abort')
  await withProducer('commit-abort', async producer => {
    for (let i = 0; i < 6; i++) {
      const transaction = await producer.transaction()
      await send(transaction, full, String(i))
      await (i % 3 === 1 ? transaction.abort() : transaction.commit())
    }
  })
  expect(['0', '2', '3', '5'], await values(full, 4, COMMITTED))
  expect(['0', '1', '2', '3', '4', '5'], await values(full, 6, UNCOMMITTED))
}

async function interleaved() {
  const full = await topic('interleaved')
  const expected = []
  await withProducer('a', a => withProducer('b', b => withProducer(null, async plain => {
    for (let i = 0; i < 4; i++) {
      const [inA, inB] = [await a.transaction(), await b.transaction()]
      for (const part of 'xy') {
        await send(inA, full, `a${i}${part}`)
        await send(inB, full, `b${i}${part}`)
        await send(plain, full, `p${i}${part}`)
        expected.push(`${i % 2 ? 'a' : 'b'}${i}${part}`, `p${i}${part}`)
      }
      await (i % 2 ? inA.commit() : inA.abort())
      await (i % 2 ? inB.abort() : inB.commit())
    }
  })))
  expect(expected, await values(full, 16))
}

async function heldBack() {
  const full = await topic('held-back')
  const all = ['before', 'open', 'after']
  await withProducer('held-back', producer => withProducer(null, async plain => {
    await send(plain, full, 'before')
    const transaction = await producer.transaction()
    await send(transaction, full, 'open')
    await send(plain, full, 'after')
    expect(['before'], await values(full, 1, COMMITTED))
    expect(all, await values(full, 3, UNCOMMITTED))
    await transaction.commit()
    expect(all, await values(full, 3, COMMITTED))
  }))
}

async function fenced() {
  const full = await topic('fenced')
  await withProducer('fenced', async older => {
    const transaction = await older.transaction()
    await send(transaction, full, 'older')
    await withProducer('fenced', async newer => {
      const its = await newer.transaction()
      await send(its, full, 'newer')
      await its.commit()
    })
    let refused = null
    await transaction.commit().catch(error => (refused = error))
    require_(refused, 'the older instance could commit')
    console.error('fenced:', refused.message)
  })
  expect(['newer'], await values(full, 1))
}

async function offsets() {
  const source = await topic('offsets')
  const target = await topic('offsets-copied')
  const groupId = `${prefix}-offsets`
  await withProducer(null, to => sendMany(to, source, 1, '', 0, 20))
  for (const commits of [false, true]) {
    const it = await member(source, groupId)
    try {
      await eventually(() => it.records.length === 20, '20 records to copy')
      await withProducer('offsets', async producer => {
        const transaction = await producer.transaction()
        await transaction.send({ topic: target, acks: -1, messages: it.records.map(({ value }) => ({ partition: 0, value })) })
        await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic: source, partitions: [{ partition: 0, offset: '20' }] }] })
        await (commits ? transaction.commit() : transaction.abort())
      })
    } finally {
      await it.close()
    }
  }
  expect(Array.from({ length: 20 }, (_, i) => String(i)), await values(target, 20, COMMITTED))
  expect(40, (await values(target, 40, UNCOMMITTED)).length)
  await eventually(async () => (await committed(groupId, source)) === 20, 'offset 20 is committed')
}

const partitionCount = async full =>
  (await admin.fetchTopicMetadata({ topics: [full] })).topics[0].partitions.length

async function topics() {
  const full = await topic('topics', 3, { 'retention.ms': '12345678' })
  expect(3, await partitionCount(full))
  // kafkajs answers false to TOPIC_ALREADY_EXISTS, and throws what else there may be
  expect(false, await admin.createTopics({ topics: [{ topic: full, numPartitions: 3 }] }))
  await admin.createPartitions({ topicPartitions: [{ topic: full, count: 5 }] })
  await eventually(async () => (await partitionCount(full)) === 5, 'five partitions')
  await admin.deleteTopics({ topics: [full] })
  await eventually(async () => !(await admin.listTopics()).includes(full), 'the topic is gone')
}

async function described(type, name) {
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name }] })
  return Object.fromEntries(resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]))
}

async function configs() {
  const full = await topic('configs', 1, { 'retention.ms': '12345678' })
  const type = ConfigResourceTypes.TOPIC
  expect('12345678', (await described(type, full))['retention.ms'])
  await admin.alterConfigs({ validateOnly: false, resources: [{ type, name: full, configEntries: [{ name: 'max.message.bytes', value: '54321' }] }] })
  await eventually(async () => (await described(type, full))['max.message.bytes'] === '54321', 'the new value')
  const { brokers } = await admin.describeCluster()
  const broker = await described(ConfigResourceTypes.BROKER, String(brokers[0].nodeId))
  require_(/^\d+$/.test(broker['transactional.id.expiration.ms']), 'a broker config')
}

async function groups() {
  const full = await topic('groups')
  const groupId = `${prefix}-groups`
  const state = async () => (await admin.describeGroups([groupId])).groups[0].state
  const listed = async () => (await admin.listGroups()).groups.some(group => group.groupId === groupId)
  await withProducer(null, to => sendMany(to, full, 1, 'x', 0, 3))
  const it = await member(full, groupId)
  try {
    await eventually(() => it.records.length === 3, 'three records')
    await it.consumer.commitOffsets([{ topic: full, partition: 0, offset: '3' }])
    expect('Stable', await state())
    expect(3, await committed(groupId, full))
  } finally {
    await it.close()
  }
  await eventually(async () => (await state()) === 'Empty', 'the group is empty')
  require_(await listed(), 'listed')
  await admin.deleteGroups([groupId])
  await eventually(async () => !(await listed()), 'the group is gone')
}

async function deleteRecords() {
  const full = await topic('delete-records')
  await withProducer(null, to => sendMany(to, full, 1, '', 0, 10))
  await admin.deleteTopicRecords({ topic: full, partitions: [{ partition: 0, offset: '4' }] })
  await eventually(async () => (await admin.fetchTopicOffsets(full))[0].low === '4', 'the log starts at 4')
  expect(['4', '5', '6', '7', '8', '9'], (await read(full, 6)).map(record => record.offset))
}

const checks = {
  ...Object.fromEntries(['none', 'gzip', 'snappy', 'lz4', 'zstd'].map(codec => [`records-${codec}`, () => records(codec)])),
  idempotent,
  positions,
  resume,
  rebalance,
  'rebalance-848': async () => { throw new Absent('no KIP-848 in this client') },
  'commit-abort': commitAbort,
  interleaved,
  'held-back': heldBack,
  fenced,
  offsets,
  topics,
  configs,
  groups,
  'delete-records': deleteRecords,
}

async function main() {
  await admin.connect()
  for (const check of asked.length ? asked : Object.keys(checks)) {
    const began = Date.now()
    let [result, detail] = ['passed', '']
    try {
      await checks[check]()
    } catch (error) {
      result = error instanceof Absent ? 'absent' : 'failed'
      detail = error instanceof Absent ? error.message : `${error.name}: ${error.message}`
      if (result === 'failed') console.error(error)
    }
    console.log(JSON.stringify({ check, result, detail, seconds: (Date.now() - began) / 1000 }))
  }
  await admin.disconnect()
  process.exit(0)
}
process.on('unhandledRejection', error => console.error('unhandled', error))
main()

// Pocket's workload in EventReduce and in TanStack DB: `node pocket.mjs TAPE` prints figures of each scenario as JSON.
// The tape has the rows, and of each scenario its steps of events and the ids that are to be within the limit at its end.
// All of it is played twice; the second time is measured, when the code is compiled.

import { readFileSync } from 'node:fs'
import { calculateActionName, runAction } from 'event-reduce-js'
import { BTreeIndex, createCollection, createLiveQueryCollection } from '@tanstack/db'

const order = (a, b) => (a.amount - b.amount || a.id - b.id) < 0 ? -1 : 1

// Of an event: what is written, and how. An array of one is a delete.
function change (rows, [id, customer, amount, status]) {
  const previous = rows.get(id) ?? null
  const doc = customer === undefined ? null : { id, customer, amount, status }
  if (doc === null) rows.delete(id)
  else rows.set(id, doc)
  return { operation: doc === null ? 'DELETE' : previous === null ? 'INSERT' : 'UPDATE', id, doc, previous }
}

// EventReduce looks at an event and at the result, and says what to do; "runFullQueryAgain" is up to its user.
class EventReduce {
  constructor (tape) {
    this.rows = new Map(tape.rows.map(([id, customer, amount, status]) => [id, { id, customer, amount, status }]))
    this.limit = tape.limit
    this.queryParams = {
      primaryKey: 'id',
      sortFields: ['amount', 'id'],
      skip: 0,
      limit: tape.limit,
      queryMatcher: () => true,
      sortComparator: order
    }
    this.asked = 0
    this.query()
  }

  query () {
    this.results = [...this.rows.values()].sort(order).slice(0, this.limit)
    this.known = new Map(this.results.map(doc => [doc.id, doc]))
  }

  step (events) {
    for (const event of events) {
      const input = {
        queryParams: this.queryParams,
        changeEvent: change(this.rows, event),
        previousResults: this.results,
        keyDocumentMap: this.known
      }
      const action = calculateActionName(input)
      if (action === 'runFullQueryAgain') {
        this.asked += 1
        this.query()
      } else {
        runAction(action, this.queryParams, input.changeEvent, this.results, this.known)
      }
    }
  }

  ids () { return this.results.map(doc => doc.id) }
}

// TanStack DB: a collection that is synced, and a live query over it, in the form that is fastest there: a B-tree index,
// and ORDER BY amount alone, for which it breaks ties by the key.
class TanStack {
  constructor (tape) {
    this.asked = 0
    this.rows = new Map()
    this.orders = createCollection({
      id: 'orders',
      getKey: row => row.id,
      autoIndex: 'eager',
      defaultIndexType: BTreeIndex,
      startSync: true,
      sync: { sync: params => { this.sync = params; this.write(tape.rows); params.markReady() } }
    })
    this.live = createLiveQueryCollection({
      startSync: true,
      query: q => q.from({ o: this.orders }).orderBy(({ o }) => o.amount).limit(tape.limit)
    })
    this.heard = 0
    this.live.subscribeChanges(changes => { this.heard += changes.length })
  }

  write (events) {
    this.sync.begin()
    for (const event of events) {
      const { operation, doc, previous } = change(this.rows, event)
      this.sync.write({ type: operation.toLowerCase(), value: doc ?? previous })
    }
    this.sync.commit()
  }

  step (events) { this.write(events) }

  ids () { return this.live.toArray.map(row => row.id) }
}

async function played (tape, Peer) {
  const peer = new Peer(tape)
  const figures = []
  for (const { steps, expected } of tape.scenarios) {
    peer.asked = 0
    const before = process.cpuUsage()
    for (const events of steps) {
      peer.step(events)
      await null
    }
    const { user, system } = process.cpuUsage(before)
    const events = steps.reduce((sum, one) => sum + one.length, 0)
    const equal = JSON.stringify(peer.ids()) === JSON.stringify(expected)
    figures.push({ event_ms: (user + system) / 1000 / events, asked_again: peer.asked / events, equal })
  }
  return figures
}

const tape = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const found = {}
for (const [name, Peer] of [['event_reduce', EventReduce], ['tanstack', TanStack]]) {
  await played(tape, Peer)
  found[name] = await played(tape, Peer)
}
console.log(JSON.stringify(found))

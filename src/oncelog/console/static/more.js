// Pages beside who holds readers back, in the order of the navigation.
// @ts-check
import { Access, Brokers, Configs, Quotas, Topics } from './cluster.js'
import { Decisions, History } from './history.js'
import { Records } from './records.js'

export const MORE = [
  ['history', 'Transactional id', History], ['decisions', 'Decisions', Decisions], ['topics', 'Topics', Topics], ['records', 'Records', Records],
  ['configs', 'Configs', Configs], ['access', 'Access rules', Access], ['quotas', 'Quotas', Quotas], ['brokers', 'Brokers', Brokers],
]

"""Accounts of releases: of columns of a table, and of persons."""

from sklearn_puffer._ledgers.ledger import Ledger
from sklearn_puffer._ledgers.person_ledger import PersonLedger
from sklearn_puffer._ledgers.store import LedgerError

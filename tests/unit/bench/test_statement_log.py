"""How `make bench-quick` counts the statements of a process in the log of the server."""

from bench.quick.ground import count_statements

LOGGED = """\
<quick_tree_relay measured> LOG:  statement: BEGIN;
<quick_tree_relay measured> LOG:  execute __asyncpg_stmt_1__:
\t        SELECT l.unit
\t        FROM surefoot.leases l
<quick_base_relay measured> LOG:  execute __asyncpg_stmt_1__: SELECT 'of the other tree'
<quick_tree_relay postgres> LOG:  statement: SELECT 'of the bench'
<quick_tree_relay measured> LOG:  statement: COMMIT;
<quick_tree_relay measured> LOG:  statement: BEGIN;
<quick_tree_relay measured> ERROR:  canceling statement due to user request
<quick_tree_relay measured> STATEMENT:  SELECT 1
< > LOG:  checkpoint starting: time
"""


def test_statements_of_one_process_are_counted_by_their_text() -> None:
    assert count_statements(LOGGED, "quick_tree_relay") == {
        "BEGIN;": 2,
        "SELECT l.unit FROM surefoot.leases l": 1,
        "COMMIT;": 1,
    }

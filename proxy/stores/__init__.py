"""Where the ledger's branches outlive the process.

The ledger in memory is the truth while the process runs. A store is asked once per conversation root and
told of every change, and whatever goes wrong in it ends here: a request neither waits for it nor learns of it.

    memory    encoded copies, bounded by bytes: what the SQLite store falls back to, and a restart in a test
    sqlite    the store of `stet serve`: changes queue up, one thread writes them, a second connection reads
    backlog   what has not been written yet, merged per branch, so that a load sees it
    database  the file: permissions, schema, rows, what is thrown away and when
    records   Structs to bytes and back

A *head* is a branch without its promises. It is written anew on every turn; a promise is written once. A
branch that the file no longer has (thrown away, or refused before) is written whole, so that no head ever
stands there without the promises it was sent with.

Losing the newest changes costs a cache miss, never a wrong body: the file always holds a state that once
was, since every turn is written in one transaction.
"""

"""The named limits of the system (law 11). A limit's unit is the last word of its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The comment of a limit says what happens when it is reached."""

    frame_bytes_max: int = 2 << 20  # a larger transaction is logged in parts
    frame_transactions_max: int = 1 << 12  # the frame is closed; the ordinal has 16 bits
    segment_bytes_max: int = 64 << 20  # the log goes on in a new segment
    record_bytes_max: int = 64 << 20  # append is refused
    step_records_max: int = 512  # a cell steps with what it has
    step_bytes_max: int = 32 << 20  # a cell steps with what it has
    step_ms_max: int = 500  # a step that took longer is followed by smaller ones: a backlog comes out bit by bit
    run_rows_min: int = 1024  # recent rows of a store; then they become a chunk, and runs of its indexes
    state_bytes_max: int = 1 << 30  # of a cell's saved runs in memory; the largest are read from their files instead
    open_groups_max: int = 200_000  # of a GROUP BY, about 1 kB each; all are packed, and unpacked when they change
    head_rows_max: int = 1_000_000  # of the frames beneath a LIMIT inside; they are read again when they change
    manifest_interval_ms: int = 2_000  # a cell writes its manifest no later
    capture_ms_max: int = 30_000  # without a step of the capture; those that wait for it are refused, with the reason
    start_ms_max: int = 600_000  # in which nothing moves while Spark starts: it is given up
    jvm_silence_ms_max: int = 60_000  # Spark's JVM is killed and started again; after a sixth of it, that is told
    unsettled_changes_max: int = 1 << 20  # logged since the source last heard of it; it hears at once
    work_pairs_max: int = 1 << 25  # that a relation's joins compare in one transaction; the query is closed
    work_bytes_max: int = 2 << 30  # that a relation's joins take in one transaction; the query is closed
    value_bytes_max: int = 64 << 20  # of one value that an expression makes; its row fails
    values_bytes_max: int = 256 << 20  # of all values that expressions make of one batch of rows; the query is closed
    build_bytes_min: int = 2 << 20  # of the rows a new template reads; fewer the cells take in a step of their own
    build_pairs_min: int = (
        1 << 20
    )  # that a new template's joins may have to compare; fewer the cells compare themselves
    build_pairs_max: int = 1 << 27  # that a new template's joins compare; the subscription is refused
    build_memory_bytes_max: int = 6 << 30  # of the process that builds a new template; the subscription is refused
    explain_pairs_max: int = 1 << 22  # that EXPLAIN ANALYZE compares; it is refused
    build_ms_max: int = 60_000  # for a template built in a separate process; then the cells build it
    template_idle_ms: int = 60_000  # without a subscriber; then the cells let go of what they keep for it
    partial_rows_min: int = 1_000_000  # of a table, about; one that is only asked for by key is then held by key
    key_idle_ms: int = 60_000  # without a subscriber of a key of such a table; then its rows go
    keys_max: int = 1_000_000  # of such a table; those without a subscriber go at once, the oldest first
    keys_bytes_max: int = 256 << 20  # of the rows of such a table, as fetched; keys without a subscriber go as above
    move_ms_min: int = 2_000  # that a relation costs, of CPU or of answers; then it is weighed against the other way
    follow_ms_max: int = 5  # of CPU for a transaction; a query that costs more is asked again where that is cheaper
    asking_cost_percent: int = 100  # of what a question takes, when it is weighed; more keeps queries incremental
    replan_times_min: int = 10  # that a join has more or fewer rows than estimated; its relation is planned again
    replan_rows_min: int = 1_000  # that such a join has, or was estimated to have; fewer are no reason
    replan_transactions_min: int = 100  # between two looks for a better order of joins; twice as many after each
    history_emissions_max: int = 1 << 15  # per window; a client further behind gets a fresh result
    history_bytes_max: int = 64 << 20  # of a cell's diffs on disk, of all windows in memory; the oldest go first
    subscriptions_per_session_max: int = 20_000  # subscribe is refused
    subscriptions_max: int = 1_000_000  # subscribe is refused
    failures_max: int = 10_000  # of a relation's rows that fail; what is asked of it is in error, whatever it is
    result_rows_max: int = 1_000_000  # the subscription is closed
    ranked_rows_max: int = 50_000_000  # that an ordered window chooses its rows among; the subscription is closed
    selective_keys_max: int = 1_000  # of the rows that changed since an answer; then the query is asked whole
    subscriptions_per_address_max: int = 500_000  # of all sessions of one address; subscribe is refused
    subscriptions_bytes_max: int = 64 << 20  # of a session's subscribe messages together; subscribe is refused
    questions_per_session_max: int = 1_000  # subscriptions that the database is asked for; subscribe is refused
    subscribes_under_way_max: int = 256  # of a session; its next message is not read before
    messages_per_s_max: int = 5_000  # of a session, four seconds' worth at once; its next message is not read before
    wide_columns_min: int = 100  # new queries of fewer columns are free
    new_columns_per_s_max: int = 25  # of an address's new wide queries, 40 seconds' worth at once; the next ones wait
    sockets_per_address_max: int = 8_192  # the handshake or request is refused with status 503
    request_ms_max: int = 10_000  # for a whole request, message or hello; the connection is closed
    session_idle_ms_max: int = 300_000  # without a subscription or a message; the socket is closed
    explains_max: int = 4  # under way at once; the request is refused with status 503
    retry_ms: int = 1_000  # a refused client is told to come back after so long
    id_bytes_max: int = 256  # of a subscription's id, of a parameter's name; the message is refused
    params_max: int = 10_000  # subscribe is refused
    params_bytes_max: int = 256 << 10  # subscribe is refused
    params_depth_max: int = 32  # of arrays in arrays; subscribe is refused
    question_ms_max: int = 30_000  # that the database takes to answer; the query is refused, its subscription closed
    question_bytes_max: int = 64 << 20  # of an answer; the subscription is closed
    sql_bytes_max: int = 64 << 10  # subscribe is refused
    message_bytes_max: int = 1 << 20  # the socket is closed
    report_bytes_max: int = 1 << 31  # of one step of a cell; more than that cannot be emitted, and the cell says so
    inbox_emissions_max: int = 1 << 16  # of a session, that wait for the slowest of its cells; it is resynced
    outbox_bytes_max: int = 16 << 20  # a slow socket is resynced
    outbox_resyncs_max: int = 3  # a slow socket is closed
    slot_lag_bytes_max: int = 16 << 30  # of the database's log, kept for us: it is released, and live queries restart
    stale_ms: int = 10_000  # without an answer of the database, or that a change waits; then live queries are stale
    heartbeat_ms: int = 1_000  # progress is sent no later


DEFAULT = Limits()

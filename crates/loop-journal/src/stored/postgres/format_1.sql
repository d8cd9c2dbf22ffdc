CREATE TABLE journal (
    one      BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    id       TEXT COLLATE "C" NOT NULL,
    key_name TEXT COLLATE "C" NOT NULL,
    format   BIGINT NOT NULL
);
CREATE TABLE blobs (
    hash TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL
);
CREATE TABLE runs (
    run          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    unix_ms      BIGINT NOT NULL,
    domain       TEXT COLLATE "C" NOT NULL,
    item         TEXT COLLATE "C" NOT NULL,
    title        TEXT COLLATE "C" NOT NULL,
    spec         TEXT COLLATE "C" NOT NULL REFERENCES blobs (hash),
    manifest     TEXT COLLATE "C" NOT NULL REFERENCES blobs (hash),
    origin       TEXT COLLATE "C",
    request_key  TEXT COLLATE "C" UNIQUE,
    stop         TEXT COLLATE "C",
    epoch        BIGINT NOT NULL,
    writer_pid   BIGINT NOT NULL,
    writer_token TEXT COLLATE "C" NOT NULL,
    entries      BIGINT NOT NULL,
    head         TEXT COLLATE "C" NOT NULL,
    seal         TEXT COLLATE "C" NOT NULL
);
-- A run's row is changed with each of its entries: with room in its page, no index is.
ALTER TABLE runs SET (fillfactor = 70);
CREATE TABLE entries (
    run       TEXT COLLATE "C" NOT NULL REFERENCES runs (run),
    seq       BIGINT NOT NULL,
    epoch     BIGINT NOT NULL,
    prev_hash TEXT COLLATE "C" NOT NULL,
    event     TEXT COLLATE "C" NOT NULL,
    notes     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run, seq)
);
CREATE TABLE pruned (
    run         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    unix_ms     BIGINT NOT NULL,
    entries     BIGINT NOT NULL,
    head        TEXT COLLATE "C" NOT NULL,
    request_key TEXT COLLATE "C" UNIQUE,
    seal        TEXT COLLATE "C" NOT NULL
);
CREATE TABLE summaries (
    run      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    head     TEXT COLLATE "C" NOT NULL,
    class    TEXT COLLATE "C" NOT NULL,
    cost     TEXT COLLATE "C" NOT NULL,
    unpriced BIGINT NOT NULL,
    seal     TEXT COLLATE "C" NOT NULL
);
CREATE TABLE outbox (
    id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    run      TEXT COLLATE "C" NOT NULL,
    hook     TEXT COLLATE "C" NOT NULL,
    event    TEXT COLLATE "C" NOT NULL,
    body     TEXT COLLATE "C" NOT NULL,
    unix_ms  BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    next_ms  BIGINT,
    error    TEXT COLLATE "C",
    seal     TEXT COLLATE "C" NOT NULL
);
CREATE TABLE shared_budgets (
    budget TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    spent  BIGINT NOT NULL
);
CREATE TABLE shared_reservations (
    run    TEXT COLLATE "C" NOT NULL,
    call   TEXT COLLATE "C" NOT NULL,
    budget TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (run, call, budget)
);
CREATE TABLE submissions (
    nth         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run         TEXT COLLATE "C" NOT NULL UNIQUE,
    domain      TEXT COLLATE "C" NOT NULL,
    caller      TEXT COLLATE "C" NOT NULL,
    request_key TEXT COLLATE "C",
    digest      TEXT COLLATE "C" NOT NULL,
    priority    BIGINT NOT NULL,
    unix_ms     BIGINT NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    seal        TEXT COLLATE "C" NOT NULL,
    state       BIGINT NOT NULL,
    stop        BIGINT NOT NULL,
    claimed_by  TEXT COLLATE "C",
    UNIQUE (caller, request_key)
);
CREATE INDEX submissions_open ON submissions (state, domain) WHERE state < 2;
CREATE TABLE audit (
    seq  BIGINT NOT NULL PRIMARY KEY,
    run  TEXT COLLATE "C",
    body TEXT COLLATE "C" NOT NULL,
    seal TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_of_run ON audit (run, seq) WHERE run IS NOT NULL;
CREATE FUNCTION audit_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'entries of the audit log are not changed and not deleted';
END
$$;
CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_kept();
-- The processes that write, and when each was seen last.
CREATE TABLE sessions (
    id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    backend  BIGINT NOT NULL,
    pid      BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    seen     TIMESTAMPTZ NOT NULL
);
-- Whether a process has its session and its lease.
CREATE FUNCTION is_alive(process TEXT) RETURNS BOOLEAN LANGUAGE sql AS $$
    SELECT EXISTS (
        SELECT 1 FROM sessions JOIN pg_stat_activity ON pg_stat_activity.pid = backend
            AND application_name = 'loopgate ' || id
        WHERE id = process AND seen > clock_timestamp() - lease_ms * make_interval(secs => 0.001)
    )
$$;
-- Whether an origin has a tag; an origin that is not JSON has none.
CREATE FUNCTION has_tag(origin TEXT, tag TEXT) RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN COALESCE(jsonb_exists(CAST(origin AS JSONB) -> 'tags', tag), FALSE);
EXCEPTION WHEN OTHERS THEN
    RETURN FALSE;
END
$$;
CREATE FUNCTION journal_bytes() RETURNS BIGINT LANGUAGE sql AS $$
    SELECT COALESCE(CAST(sum(pg_total_relation_size(oid)) AS BIGINT), 0)
    FROM pg_class WHERE relkind = 'r' AND relnamespace = CAST('loopgate' AS regnamespace)
$$;

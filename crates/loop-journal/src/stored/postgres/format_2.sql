-- What people ask of runs that another process drives, until it is answered.
CREATE TABLE remote_requests (
    nth      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       TEXT COLLATE "C" NOT NULL UNIQUE,
    run      TEXT COLLATE "C" NOT NULL,
    body     TEXT COLLATE "C" NOT NULL,
    unix_ms  BIGINT NOT NULL,
    seal     TEXT COLLATE "C" NOT NULL,
    asked_by TEXT COLLATE "C" NOT NULL,
    taken_by TEXT COLLATE "C",
    answer   TEXT COLLATE "C"
);
CREATE INDEX remote_requests_open ON remote_requests (nth) WHERE answer IS NULL;
-- The transaction that added a run, by which a reader finds the runs that are new to it.
ALTER TABLE runs ADD COLUMN born BIGINT NOT NULL DEFAULT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT);
CREATE INDEX runs_born ON runs (born);
-- How often runs were taken out: then a reader reads the list anew.
ALTER TABLE journal ADD COLUMN removals BIGINT NOT NULL DEFAULT 0;
CREATE FUNCTION count_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE loopgate.journal SET removals = removals + 1;
    RETURN NULL;
END
$$;
CREATE TRIGGER runs_are_taken_out AFTER DELETE OR TRUNCATE ON runs
    FOR EACH STATEMENT EXECUTE FUNCTION count_removal();
-- Pages of the list: a run's row is changed with each entry, and none of these columns is but the reason, once.
CREATE INDEX runs_open ON runs (run) WHERE stop IS NULL;
CREATE INDEX runs_of_domain ON runs (domain, run);
CREATE INDEX runs_of_reason ON runs (stop, run) WHERE stop IS NOT NULL;
CREATE INDEX submissions_queued ON submissions (run) WHERE state = 0;
-- An origin may hold a NUL, which the type takes in no form.
CREATE OR REPLACE FUNCTION has_tag(origin TEXT, tag TEXT) RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN COALESCE(jsonb_exists(CAST(replace(origin, '\u0000', '\ufffd') AS JSONB) -> 'tags', tag), FALSE);
EXCEPTION WHEN OTHERS THEN
    RETURN FALSE;
END
$$;

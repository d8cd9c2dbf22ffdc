-- What people say of runs, and evals that were kept.
CREATE TABLE labels (
    run  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body TEXT COLLATE "C" NOT NULL,
    seal TEXT COLLATE "C" NOT NULL
);
CREATE TABLE evals (
    id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    unix_ms BIGINT NOT NULL,
    head    TEXT COLLATE "C" NOT NULL,
    digest  TEXT COLLATE "C" NOT NULL,
    body    TEXT COLLATE "C" NOT NULL,
    seal    TEXT COLLATE "C" NOT NULL
);
-- What a list says of a run beyond its row, in place of `summaries`, which earlier programs still keep.
CREATE TABLE run_summaries (
    run  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    head TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    seal TEXT COLLATE "C" NOT NULL
);
-- The index of words: the runs in it, and their words by parts.
CREATE TABLE search_runs (
    nth  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run  TEXT COLLATE "C" NOT NULL UNIQUE,
    head TEXT COLLATE "C" NOT NULL
);
CREATE TABLE search_words (
    rowid BIGINT NOT NULL PRIMARY KEY,
    words TSVECTOR NOT NULL
);
CREATE INDEX search_words_of ON search_words USING gin (words);

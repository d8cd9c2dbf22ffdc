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

-- The database of the example: the tables and rows of examples/helpdesk, two roles, and row level security by account.
-- make-database.sh runs it in an empty database, as its owner. Both roles get the password in the variable `password`.

\set ON_ERROR_STOP on

-- The rows are those of the SQLite example: both read this SQL.
\ir ../helpdesk/helpdesk.sql

-- Types that SQLite does not have.
ALTER TABLE accounts ALTER contract_end TYPE date USING contract_end::date;
ALTER TABLE devices ALTER last_seen TYPE timestamp USING last_seen::timestamp;
ALTER TABLE users ALTER last_login TYPE timestamp USING last_login::timestamp;
ALTER TABLE users ALTER groups_ TYPE text[] USING string_to_array(groups_, '; ');
ALTER TABLE backups ALTER last_run TYPE timestamp USING last_run::timestamp;
ALTER TABLE backups ALTER last_good TYPE timestamp USING last_good::timestamp;
ALTER TABLE tickets ALTER opened TYPE timestamp USING opened::timestamp;

-- The key of the call is unique: a second try of the same call adds nothing.
CREATE TABLE ticket_notes (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  ticket_id  text NOT NULL REFERENCES tickets (id),
  account_id text NOT NULL REFERENCES accounts (id),
  text       text NOT NULL,
  call_key   text NOT NULL UNIQUE,
  written_at timestamptz NOT NULL DEFAULT now()
);

-- Loopgate sets `loopgate.account` in each transaction, to the account of the work item. Where it is not set no row is seen.
CREATE FUNCTION own_account() RETURNS text LANGUAGE sql STABLE
  RETURN nullif(current_setting('loopgate.account', true), '');

ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE devices ENABLE ROW LEVEL SECURITY;
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE backups ENABLE ROW LEVEL SECURITY;
ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;
ALTER TABLE ticket_notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON accounts USING (id = own_account());
CREATE POLICY own ON devices USING (account_id = own_account());
CREATE POLICY own ON users USING (account_id = own_account());
CREATE POLICY own ON backups USING (account_id = own_account());
CREATE POLICY own ON tickets USING (account_id = own_account());
-- A note is for a ticket of the same account: foreign keys alone do not look at policies.
CREATE POLICY own ON ticket_notes USING (account_id = own_account())
  WITH CHECK (account_id = own_account()
    AND EXISTS (SELECT FROM tickets WHERE tickets.id = ticket_id AND tickets.account_id = own_account()));

-- The least rights: one role reads, and the other adds notes. Neither owns a table, so the policies are for both.
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE ROLE helpdesk_reader LOGIN PASSWORD :'password';
CREATE ROLE helpdesk_writer LOGIN PASSWORD :'password';
GRANT USAGE ON SCHEMA public TO helpdesk_reader, helpdesk_writer;
GRANT SELECT ON accounts, devices, users, backups, tickets TO helpdesk_reader;
GRANT SELECT, INSERT ON ticket_notes TO helpdesk_writer;
GRANT SELECT (id, account_id) ON tickets TO helpdesk_writer;

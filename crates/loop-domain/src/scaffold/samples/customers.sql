CREATE TABLE customers (number TEXT PRIMARY KEY, name TEXT, email TEXT, since TEXT, note TEXT);
INSERT INTO customers VALUES
  ('CUST-7', 'Ada Brown', 'ada@brown.example', '2021-03-02', 'Two lost parcels in January.'),
  ('CUST-8', 'Carl Dunn', 'carl@dunn.example', '2025-11-20', 'First order in November.');

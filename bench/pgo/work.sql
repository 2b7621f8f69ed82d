-- SPDX-License-Identifier: MIT
-- Work for SQLite: inserts, indexes, joins, grouping, text. ROWS and SEED are filled in by pgo.py.
CREATE TABLE item(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, name TEXT);
WITH RECURSIVE n(i, r) AS (
  SELECT 1, SEED
  UNION ALL
  SELECT i + 1, (r * 1103515245 + 12345) % 2147483648 FROM n WHERE i < ROWS)
INSERT INTO item SELECT i, r / 7 % 1000, r / 13 % 5000, 'name ' || (r / 11 % 9000) FROM n;
CREATE INDEX by_a ON item(a);
CREATE INDEX by_name ON item(name);
SELECT count(*), sum(b), avg(length(name)) FROM item;
SELECT a % 10 AS g, count(*), sum(b), max(name) FROM item GROUP BY g ORDER BY g;
SELECT count(*) FROM item x JOIN item y ON x.a = y.a AND x.b < y.b;
SELECT count(*) FROM item WHERE name LIKE '%77%';
SELECT name, count(*) AS c FROM item GROUP BY name ORDER BY c DESC, name LIMIT 10;
UPDATE item SET b = b + 1, name = upper(name) WHERE a % 3 = 0;
SELECT sum(b), count(DISTINCT name) FROM item;
SELECT count(*) FROM item WHERE id IN (SELECT b FROM item WHERE a < 300);
DELETE FROM item WHERE a % 7 = 0;
SELECT count(*), sum(a * b % 17) FROM item;
SELECT group_concat(substr(name, 1, 6), '/') FROM (SELECT name FROM item ORDER BY b, id LIMIT 50);

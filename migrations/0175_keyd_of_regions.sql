-- The sijil-keyd of a region (docs/region-keyd.md): the thumbprint of its key, from the record with which the region got its first key. NULL: its keys are
-- under the main sijil-keyd. It never changes, because no other sijil-keyd opens the keys that are there.
ALTER TABLE region ADD COLUMN keyd text CHECK (keyd ~ '^[A-Za-z0-9_-]{43}$');
GRANT UPDATE (keyd) ON region TO sijil_app;

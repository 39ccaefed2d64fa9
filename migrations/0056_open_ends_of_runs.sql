-- Collection asks for each manifest without a tag whether an admitted run has made it (docs/garbage-collection.md).
CREATE INDEX held_manifest_of ON held_manifest (repository_id, digest);
DROP INDEX held_manifest_repository;

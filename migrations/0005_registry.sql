-- Blobs, uploads, manifests and tags. Docs: docs/registry.md.
--
-- What is unique per what: a blob per (project, region, digest), so deduplication never crosses a project or a
-- region; a link per (repository, blob), and only linked blobs are served by a repository; a manifest per
-- (repository, digest); a tag per (repository, name). Names compare in byte order whatever the database's locale.

-- The key that a project's manifests are sealed under, wrapped by sijil-keyd. A rotation adds a row.
CREATE TABLE project_key (
    key_id      uuid PRIMARY KEY,
    project_id  uuid NOT NULL REFERENCES project,
    region_id   text NOT NULL REFERENCES region,
    key_version integer NOT NULL,                       -- of the key-encryption key
    wrapped_key bytea NOT NULL CHECK (length(wrapped_key) BETWEEN 1 AND 256),
    commitment  bytea NOT NULL CHECK (length(commitment) = 32),
    is_current  bool NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX project_key_current ON project_key (project_id) WHERE is_current;

CREATE TABLE blob (
    blob_id     uuid PRIMARY KEY,                       -- random; names the object and enters its keys
    project_id  uuid NOT NULL REFERENCES project,
    region_id   text NOT NULL REFERENCES region,
    digest      text COLLATE "C" NOT NULL CHECK (length(digest) BETWEEN 71 AND 135),
    size_bytes  bigint NOT NULL CHECK (size_bytes >= 0),
    part        bigint NOT NULL CHECK (part BETWEEN 0 AND 4294967295),  -- the extent that closes it
    key_version integer NOT NULL,
    wrapped_key bytea NOT NULL CHECK (length(wrapped_key) BETWEEN 1 AND 256),
    commitment  bytea NOT NULL CHECK (length(commitment) = 32),
    damaged_at  timestamptz,                            -- a read or a scrub found that the bytes do not verify
    created_at  timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz NOT NULL DEFAULT now() + interval '24 hours',  -- not collected before
    UNIQUE (project_id, region_id, digest)
);

CREATE TABLE repository_blob (
    repository_id uuid NOT NULL REFERENCES repository,
    digest        text COLLATE "C" NOT NULL,            -- of the blob, so that one index finds it
    blob_id       uuid NOT NULL REFERENCES blob ON UPDATE CASCADE,  -- a damaged blob is replaced by a new push
    linked_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (repository_id, digest, blob_id)
);
CREATE INDEX repository_blob_blob ON repository_blob (blob_id);

-- An upload session. A writer owns it while writer_epoch is the one that it claimed; a commit or a checkpoint of a
-- writer that lost it changes no row.
CREATE TABLE upload (
    upload_id         uuid PRIMARY KEY,
    repository_id     uuid NOT NULL REFERENCES repository,
    project_id        uuid NOT NULL REFERENCES project,
    region_id         text NOT NULL REFERENCES region,
    blob_id           uuid NOT NULL UNIQUE,
    key_version       integer NOT NULL,
    wrapped_key       bytea NOT NULL CHECK (length(wrapped_key) BETWEEN 1 AND 256),
    commitment        bytea NOT NULL CHECK (length(commitment) = 32),
    digest_algorithm  text NOT NULL CHECK (digest_algorithm IN ('sha256', 'sha512')),
    writer_epoch      bigint NOT NULL DEFAULT 0,        -- raised by each claim
    sequence          bigint NOT NULL DEFAULT 0,        -- of the last checkpoint; 0: none
    offset_bytes      bigint NOT NULL DEFAULT 0 CHECK (offset_bytes >= 0),
    checkpoint_epoch  bigint NOT NULL DEFAULT 0,        -- the writer_epoch that wrote the checkpoint
    checkpoint_digest bytea CHECK (length(checkpoint_digest) = 32),  -- an older checkpoint can't be replayed
    bound_to          bytea NOT NULL CHECK (length(bound_to) = 32),  -- hash of subject, credential and confirmation
    secret_hash       bytea NOT NULL CHECK (length(secret_hash) = 32),
    created_at        timestamptz NOT NULL DEFAULT now(),
    expires_at        timestamptz NOT NULL DEFAULT now() + interval '24 hours',
    CHECK ((sequence = 0) = (checkpoint_digest IS NULL))
);
CREATE INDEX upload_expires ON upload (expires_at);
CREATE INDEX upload_project ON upload (project_id);  -- sessions of a project are limited

-- Objects whose upload ended without a blob: another upload of the same digest was first, it was cancelled, or it
-- expired. Written in the transaction that ends the upload; the row goes when the bytes are gone.
CREATE TABLE abandoned_object (
    blob_id      uuid PRIMARY KEY,
    region_id    text NOT NULL REFERENCES region,
    abandoned_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE manifest (
    repository_id     uuid NOT NULL REFERENCES repository,
    digest            text COLLATE "C" NOT NULL CHECK (length(digest) BETWEEN 71 AND 135),
    media_type        text NOT NULL CHECK (length(media_type) BETWEEN 1 AND 255),
    size_bytes        integer NOT NULL CHECK (size_bytes BETWEEN 2 AND 4194304),
    key_id            uuid NOT NULL REFERENCES project_key,
    sealed            bytea NOT NULL,                   -- the exact bytes, sealed; annotations are read from them
    artifact_type     text,                             -- of the manifest, or else its config's media type
    subject_digest    text COLLATE "C",                 -- need not exist
    created_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (repository_id, digest)
);
ALTER TABLE manifest ALTER COLUMN sealed SET STORAGE EXTERNAL;  -- ciphertext does not compress
CREATE INDEX manifest_subject ON manifest (repository_id, subject_digest, digest) WHERE subject_digest IS NOT NULL;

-- What a manifest needs: blobs and child manifests of the same repository.
CREATE TABLE manifest_reference (
    repository_id   uuid NOT NULL,
    manifest_digest text COLLATE "C" NOT NULL,
    digest          text COLLATE "C" NOT NULL,
    is_manifest     bool NOT NULL,
    PRIMARY KEY (repository_id, manifest_digest, digest, is_manifest),
    FOREIGN KEY (repository_id, manifest_digest) REFERENCES manifest ON DELETE CASCADE
);
CREATE INDEX manifest_reference_digest ON manifest_reference (repository_id, digest);

CREATE TABLE tag (
    repository_id   uuid NOT NULL,
    name            text COLLATE "C" NOT NULL CHECK (name ~ '^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$'),
    manifest_digest text COLLATE "C" NOT NULL,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (repository_id, name),
    FOREIGN KEY (repository_id, manifest_digest) REFERENCES manifest
);
CREATE INDEX tag_manifest ON tag (repository_id, manifest_digest);

GRANT SELECT, INSERT ON project_key TO sijil_app;
GRANT SELECT, INSERT, DELETE ON blob, upload, abandoned_object, repository_blob, manifest, manifest_reference, tag
    TO sijil_app;
GRANT UPDATE (blob_id, size_bytes, part, key_version, wrapped_key, commitment, damaged_at, lease_until) ON blob
    TO sijil_app;
GRANT UPDATE (writer_epoch, sequence, offset_bytes, checkpoint_epoch, checkpoint_digest) ON upload TO sijil_app;
GRANT UPDATE (manifest_digest, updated_at) ON tag TO sijil_app;

-- What each runner had free when it last asked for work (docs/runs.md, "Why a run waits"). One row for a key, and only keys of signed documents ask, so the table
-- has no more rows than there are runners. A scheduler says its regions alone: what is not known is NULL.
CREATE TABLE run_offer (
    key             text PRIMARY KEY CHECK (length(key) = 43),
    pool            text NOT NULL CHECK (length(pool) BETWEEN 1 AND 63),
    organisation_id uuid,                                                    -- of the document's scope; NULL: any
    project_id      uuid,
    regions         text[] NOT NULL CHECK (cardinality(regions) BETWEEN 1 AND 16),
    jurisdictions   text[] CHECK (cardinality(jurisdictions) <= 16),
    isolation       int,
    assurance       int,
    nodes           bigint,
    cpus            bigint,
    memory_bytes    bigint,
    devices_most    bigint,
    device_types    text[] CHECK (cardinality(device_types) <= 64),
    device_migs     text[] CHECK (cardinality(device_migs) <= 64),
    device_memory   bigint[] CHECK (cardinality(device_memory) <= 64),
    enrolled_until  timestamptz,
    asked_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX run_offer_of_pool ON run_offer (pool, asked_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_offer TO sijil_app;

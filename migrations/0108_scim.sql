-- SCIM services are documents of the kind 12 (documents/format/kinds.def). The log has no event of these actions yet, so the index audit_entry_document
-- stays right.
CREATE OR REPLACE FUNCTION document_kind_of(action text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE $1 WHEN 'key.approve' THEN 2 WHEN 'key.revoke' THEN 2 WHEN 'runner.approve' THEN 3 WHEN 'runner.revoke' THEN 3
                   WHEN 'rule.approve' THEN 4 WHEN 'rule.revoke' THEN 4 WHEN 'sink.approve' THEN 5 WHEN 'sink.revoke' THEN 5
                   WHEN 'detection.approve' THEN 6 WHEN 'detection.revoke' THEN 6 WHEN 'audit.erase' THEN 7 WHEN 'hold.add' THEN 8
                   WHEN 'hold.release' THEN 8 WHEN 'persons.approve' THEN 9 WHEN 'persons.revoke' THEN 9
                   WHEN 'groups.approve' THEN 11 WHEN 'groups.revoke' THEN 11 WHEN 'scim.approve' THEN 12
                   WHEN 'scim.revoke' THEN 12 END
$$;

-- A person that a SCIM service has provisioned (docs/scim.md). The row stays after its deletion, without any name, so a subject of a token never becomes
-- another person.
CREATE TABLE scim_user (
    person      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id     uuid NOT NULL UNIQUE, -- of SCIM; a person that was deleted and comes back has another one
    issuer      text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 255),
    external_id text NOT NULL CHECK (length(external_id) BETWEEN 1 AND 255), -- the immutable id that the person's tokens have
    name_index  bytea CHECK (length(name_index) = 32), -- of userName, under sijil-keyd's index key
    active      boolean NOT NULL,
    is_deleted  boolean NOT NULL DEFAULT false,
    version     bigint NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    modified_at timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz, -- the newest deactivation or deletion of a person that was active
    UNIQUE (issuer, external_id),
    CHECK (NOT is_deleted OR (name_index IS NULL AND NOT active))
);
CREATE UNIQUE INDEX scim_user_name ON scim_user (issuer, name_index) WHERE name_index IS NOT NULL;
CREATE INDEX scim_user_ended ON scim_user (ended_at) WHERE ended_at IS NOT NULL;

-- The names of a person, each sealed under the key of the person, and gone with it.
CREATE TABLE scim_name (
    person  bigint NOT NULL REFERENCES scim_user ON DELETE CASCADE,
    kind    int NOT NULL CHECK (kind IN (1, 2)), -- userName, displayName
    subject bigint NOT NULL REFERENCES audit_subject (id) ON DELETE CASCADE,
    salt    bytea NOT NULL CHECK (length(salt) = 32),
    box     bytea NOT NULL CHECK (length(box) BETWEEN 40 AND 1088), -- nonce, ciphertext, tag
    PRIMARY KEY (person, kind)
);
CREATE INDEX scim_name_subject ON scim_name (subject);

-- The subjects that a person's tokens have had: one with most issuers, one for each client with those that make pairwise subjects.
CREATE TABLE scim_subject (
    issuer  text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 255),
    subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    person  bigint NOT NULL REFERENCES scim_user ON DELETE CASCADE,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX scim_subject_person ON scim_subject (person);

CREATE TABLE scim_group (
    group_id     uuid PRIMARY KEY,
    issuer       text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 255),
    external_id  text CHECK (length(external_id) BETWEEN 1 AND 255),
    display_name text NOT NULL CHECK (length(display_name) BETWEEN 1 AND 256),
    version      bigint NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT now(),
    modified_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (issuer, external_id)
);
CREATE INDEX scim_group_name ON scim_group (issuer, lower(display_name));

CREATE TABLE scim_member (
    group_id uuid NOT NULL REFERENCES scim_group ON DELETE CASCADE,
    person   bigint NOT NULL REFERENCES scim_user ON DELETE CASCADE,
    PRIMARY KEY (group_id, person)
);
CREATE INDEX scim_member_person ON scim_member (person);

GRANT SELECT, INSERT, UPDATE, DELETE ON scim_user, scim_name, scim_subject, scim_group, scim_member TO sijil_app;

-- Who may do what: robots, trusted issuers, and the roles that are given to them.
-- Rows are revoked, not deleted: the log names them. Each change raises the authorization epoch.

CREATE TABLE robot (
    robot_id        uuid PRIMARY KEY,
    organisation_id uuid REFERENCES organisation,  -- NULL: of the registry itself
    name            text NOT NULL CHECK (
        name ~ '^robot\$([a-z0-9]+([._-][a-z0-9]+)*\+)?[a-z0-9]+([._-][a-z0-9]+)*$' AND length(name) <= 135),
    secret_hash     bytea NOT NULL CHECK (length(secret_hash) = 32),  -- SHA-256; the secret has 256 random bits
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL CHECK (expires_at <= created_at + interval '90 days'),
    revoked_at      timestamptz
);
CREATE UNIQUE INDEX robot_live_name ON robot (name) WHERE revoked_at IS NULL;

CREATE TABLE trusted_issuer (
    issuer_id      uuid PRIMARY KEY,
    url            text NOT NULL UNIQUE CHECK (url ~ '^https://.' AND length(url) <= 255),
    audience       text NOT NULL CHECK (length(audience) BETWEEN 1 AND 255),
    algorithms     text[] NOT NULL CHECK (
        algorithms <@ ARRAY['RS256', 'PS256', 'ES256', 'ES384'] AND cardinality(algorithms) > 0),
    lifetime_max_s bigint NOT NULL CHECK (lifetime_max_s BETWEEN 1 AND 86400),
    jwks           text NOT NULL CHECK (length(jwks) <= 262144),  -- its public keys; a fetcher may renew them
    created_at     timestamptz NOT NULL DEFAULT now()
);

-- Which roles there are, and where each fits, is authz/roles.def; a test compares.
CREATE TABLE binding (
    binding_id      uuid PRIMARY KEY,
    robot_id        uuid REFERENCES robot,
    issuer          text CHECK (length(issuer) BETWEEN 1 AND 255),
    subject         text CHECK (length(subject) BETWEEN 1 AND 255),
    role            text NOT NULL CHECK (role IN (
        'registry-admin', 'org-admin', 'project-admin', 'publisher', 'promoter', 'consumer', 'trainer', 'auditor',
        'security-officer', 'break-glass')),
    organisation_id uuid REFERENCES organisation,  -- the scope: all NULL is the whole registry
    project_id      uuid REFERENCES project,
    pattern         text CHECK (length(pattern) BETWEEN 1 AND 255),
    granted_by      text NOT NULL,
    approved_by     text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz,
    revoked_at      timestamptz,
    CHECK ((robot_id IS NULL) = (issuer IS NOT NULL)),
    CHECK ((issuer IS NULL) = (subject IS NULL)),
    CHECK (project_id IS NULL OR organisation_id IS NOT NULL),
    CHECK (pattern IS NULL OR project_id IS NOT NULL),
    CHECK (robot_id IS NULL OR granted_by <> 'robot:' || robot_id::text),  -- nobody to himself
    CHECK (role <> 'registry-admin' OR organisation_id IS NULL),
    CHECK (role <> 'break-glass' OR (approved_by IS NOT NULL AND approved_by <> granted_by
                                     AND expires_at IS NOT NULL AND expires_at <= created_at + interval '1 hour'))
);
CREATE UNIQUE INDEX binding_live ON binding (robot_id, issuer, subject, role, organisation_id, project_id, pattern)
    NULLS NOT DISTINCT WHERE revoked_at IS NULL;
CREATE INDEX binding_scope ON binding (organisation_id, project_id, binding_id) WHERE revoked_at IS NULL;

GRANT SELECT, INSERT ON robot, binding TO sijil_app;
GRANT UPDATE (revoked_at) ON robot, binding TO sijil_app;
GRANT SELECT, INSERT, DELETE ON trusted_issuer TO sijil_app;
GRANT UPDATE (audience, algorithms, lifetime_max_s, jwks) ON trusted_issuer TO sijil_app;

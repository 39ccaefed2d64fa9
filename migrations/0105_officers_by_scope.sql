-- Each end of a role, a robot or an issuer asks whether a security officer is left (docs/identity.md, "The last officer"), while it holds the lock of the log.
CREATE INDEX binding_officer ON binding (organisation_id) WHERE role = 'security-officer' AND revoked_at IS NULL;

-- A person that SCIM has provisioned and that never acted is erased, too (docs/erasure.md): its names are sealed under its key, and its row has its externalId. No role
-- has to name it, so the row of its pseudonym leads to the one or the other (0119). It goes with the row that it leads to.
ALTER TABLE audit_named ALTER COLUMN binding_id DROP NOT NULL, ADD COLUMN person bigint REFERENCES scim_user ON DELETE CASCADE,
    ADD CHECK (num_nonnulls(binding_id, person) = 1);
CREATE INDEX audit_named_person ON audit_named (person);

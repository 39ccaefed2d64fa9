-- A draft collects signatures until it has as many as its kind needs (docs/documents.md): `signed_by` names the principal that brought
-- the envelope of the same position. The first envelope is the holder's.
ALTER TABLE document_draft ADD COLUMN envelopes bytea[], ADD COLUMN signed_by text[];
UPDATE document_draft SET envelopes = ARRAY[envelope], signed_by = ARRAY[drafted_by];
ALTER TABLE document_draft
    ALTER COLUMN envelopes SET NOT NULL,
    ALTER COLUMN signed_by SET NOT NULL,
    DROP COLUMN envelope,
    ADD CONSTRAINT document_draft_envelopes CHECK (
        array_ndims(envelopes) = 1 AND array_lower(envelopes, 1) = 1 AND cardinality(envelopes) BETWEEN 1 AND 4 AND
        array_position(envelopes, NULL) IS NULL AND length(envelopes[1]) BETWEEN 1 AND 2097152 AND
        coalesce(length(envelopes[2]), 1) BETWEEN 1 AND 2097152 AND coalesce(length(envelopes[3]), 1) BETWEEN 1 AND 2097152 AND
        coalesce(length(envelopes[4]), 1) BETWEEN 1 AND 2097152),
    ADD CONSTRAINT document_draft_signed_by CHECK (
        array_ndims(signed_by) = 1 AND array_lower(signed_by, 1) = 1 AND cardinality(signed_by) = cardinality(envelopes) AND
        array_position(signed_by, NULL) IS NULL AND length(array_to_string(signed_by, ' ')) <= 1023);
GRANT UPDATE (envelopes, signed_by) ON document_draft TO sijil_app;

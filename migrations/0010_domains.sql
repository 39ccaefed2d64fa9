-- PostgreSQL reads the text of each CHECK of a table again for each statement that writes to the table: a push of 1 MiB
-- spent a sixth of its CPU time there. A domain's rule is kept ready. So what is written with each request has its
-- rules in domains, and an UPDATE pays only for the columns that it sets.
CREATE DOMAIN bytes_16 AS bytea CHECK (length(VALUE) = 16);
CREATE DOMAIN bytes_32 AS bytea CHECK (length(VALUE) = 32);
CREATE DOMAIN wrapped_key AS bytea CHECK (length(VALUE) BETWEEN 1 AND 256);
CREATE DOMAIN audit_leaf AS bytea CHECK (length(VALUE) <= 4096);
CREATE DOMAIN digest AS text COLLATE "C" CHECK (length(VALUE) BETWEEN 71 AND 135);
CREATE DOMAIN digest_algorithm AS text CHECK (VALUE IN ('sha256', 'sha512'));
CREATE DOMAIN byte_count AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN part_number AS bigint CHECK (VALUE BETWEEN 0 AND 4294967295);
CREATE DOMAIN always_true AS bool CHECK (VALUE);

ALTER TABLE audit_log
    DROP CONSTRAINT audit_log_only_row_check, ALTER only_row TYPE always_true,
    DROP CONSTRAINT audit_log_size_check, ALTER size TYPE byte_count;
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_leaf_check, ALTER leaf TYPE audit_leaf,
    DROP CONSTRAINT audit_entry_leaf_hash_check, ALTER leaf_hash TYPE bytes_32;
ALTER TABLE audit_payload
    DROP CONSTRAINT audit_payload_salt_check, ALTER salt TYPE bytes_32;
DROP VIEW audit_key;
ALTER TABLE audit_run
    DROP CONSTRAINT audit_run_key_check, ALTER key TYPE bytes_16;
CREATE VIEW audit_key AS
    SELECT r.key, r.n - cardinality(r.seqs) + s.place AS n, s.seq
    FROM audit_run r CROSS JOIN LATERAL unnest(r.seqs) WITH ORDINALITY AS s (seq, place);

ALTER TABLE blob
    DROP CONSTRAINT blob_digest_check, ALTER digest TYPE digest,
    DROP CONSTRAINT blob_size_bytes_check, ALTER size_bytes TYPE byte_count,
    DROP CONSTRAINT blob_part_check, ALTER part TYPE part_number,
    DROP CONSTRAINT blob_wrapped_key_check, ALTER wrapped_key TYPE wrapped_key,
    DROP CONSTRAINT blob_commitment_check, ALTER commitment TYPE bytes_32;
-- That a checkpoint has a digest is checked by whoever reads one (registry/upload_store.c).
ALTER TABLE upload
    DROP CONSTRAINT upload_check,
    DROP CONSTRAINT upload_wrapped_key_check, ALTER wrapped_key TYPE wrapped_key,
    DROP CONSTRAINT upload_commitment_check, ALTER commitment TYPE bytes_32,
    DROP CONSTRAINT upload_digest_algorithm_check, ALTER digest_algorithm TYPE digest_algorithm,
    DROP CONSTRAINT upload_offset_bytes_check, ALTER offset_bytes TYPE byte_count,
    DROP CONSTRAINT upload_checkpoint_digest_check, ALTER checkpoint_digest TYPE bytes_32,
    DROP CONSTRAINT upload_bound_to_check, ALTER bound_to TYPE bytes_32,
    DROP CONSTRAINT upload_secret_hash_check, ALTER secret_hash TYPE bytes_32;

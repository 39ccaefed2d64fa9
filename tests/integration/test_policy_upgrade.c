/* A database from before migration 0040: its policy sets are rows of policy_set, and become documents (docs/backup.md, "Upgrading"). */
#include "storage/migrations_priv.h"
#include "tests/integration/decider_fixture.h"

#define BEFORE         39 /* the last migration that kept policy sets in policy_set */
#define MIGRATION      "0040_sets_are_documents"
#define MIGRATIONS_MAX 1000

/* The columns of the table, and the rights on it. */
#define SHAPE                                                                                                                           \
    "SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attgenerated,"                             \
    " pg_get_expr(adbin, adrelid)), ', ' ORDER BY attname) || (SELECT string_agg(pg_get_constraintdef(c.oid), ', ' ORDER BY 1)"         \
    " FROM (SELECT oid FROM pg_constraint WHERE conrelid = 'policy_set'::regclass) c) ||"                                               \
    " has_table_privilege('sijil_app', 'policy_set', 'SELECT')::text || has_table_privilege('sijil_app', 'policy_set', 'DELETE')::text" \
    " FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"                                                  \
    " WHERE attrelid = 'policy_set'::regclass AND attnum > 0"

/* The table and the functions of migrations 0004, 0024 and 0030, with the rows that a registry of that time has. */
static const char back[] =
    "CREATE TABLE policy_set ("
    " epoch bigint NOT NULL CHECK (epoch >= 1), digest bytea NOT NULL CHECK (length(digest) = 32),"
    " envelope bytea NOT NULL CHECK (length(envelope) BETWEEN 1 AND 2097152),"
    " loaded_by text NOT NULL CHECK (length(loaded_by) BETWEEN 1 AND 255), loaded_at timestamptz NOT NULL DEFAULT now(),"
    " load_detail text GENERATED ALWAYS AS ('sha256:' || encode(sha256(envelope), 'hex') || ' ' || epoch::text || ' sha256:' ||"
    " encode(digest, 'hex')) STORED PRIMARY KEY);"
    "GRANT SELECT, INSERT ON policy_set TO sijil_app;"
    "INSERT INTO policy_set SELECT version, digest, envelopes[1], recorded_by, recorded_at FROM document WHERE kind = 1;"
    "DELETE FROM document WHERE kind = 1;"
    "CREATE OR REPLACE FUNCTION policy_set_named(detail text, lowest bigint) RETURNS bytea"
    " LANGUAGE sql STABLE SET search_path = public, pg_temp SET enable_seqscan = off AS $$"
    " SELECT p.envelope FROM policy_set p WHERE p.load_detail = $1 AND p.epoch >= $2 $$;"
    "CREATE OR REPLACE FUNCTION policy_sets_after(after bigint, most bigint) RETURNS TABLE (epoch bigint, load_detail text)"
    " LANGUAGE sql STABLE ROWS 16 SET search_path = public, pg_temp SET enable_seqscan = off AS $$"
    " SELECT p.epoch, p.load_detail FROM policy_set p WHERE p.epoch > $1 ORDER BY p.epoch DESC LIMIT $2 $$";

static struct database *database_of_then(void)
{
    static struct migration old[MIGRATIONS_MAX + 1];
    struct database *database = database_new_empty();
    struct migration_report report;
    struct error err = {0};

    for (size_t i = 0; storage_migrations[i].name != NULL && storage_migrations[i].number <= BEFORE; i++) {
        assert_true(i < MIGRATIONS_MAX);
        old[i] = storage_migrations[i];
    }
    if (!storage_migrate_with(database_owner(database), old, &report, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(report.version, BEFORE);
    return database;
}

/* All steps of an operator: `sijild --migrate` with the rows. */
static void rows_of_then_become_documents(void **state)
{
    OWNED(database) *database = database_of_then();
    struct migration_report report;
    struct error err = {0};
    char before[256];

    (void)state;
    database_execute(database,
                     "INSERT INTO policy_set (epoch, digest, envelope, loaded_by) VALUES"
                     " (7, sha256('seven'), 'an envelope', 'robot$ci'), (8, sha256('eight'), 'another one', 'robot$ci')");
    database_execute(database, "INSERT INTO document_draft (kind, scope, name, digest, envelope, drafted_by, expires_at)"
                               " VALUES (2, 'acme', 'key', sha256('draft'), 'its envelope', 'ext:1', now() + interval '1 day')");
    (void)snprintf(before, sizeof before, "%s", database_ask(database, "SELECT load_detail FROM policy_set WHERE epoch = 8"));
    if (!storage_migrate(database_owner(database), &report, &err).ok) fail_msg("%s", err.message);
    assert_string_equal(database_ask(database, "SELECT detail FROM document WHERE kind = 1 AND version = 8"), before);
    assert_string_equal(database_ask(database, "SELECT count(*) FROM document WHERE kind = 1 AND scope = '' AND name = 'policies'"
                                               " AND recorded_by = 'robot$ci' AND cardinality(envelopes) = 1"),
                        "2");
    assert_string_equal(database_ask(database, "SELECT convert_from(envelopes[1], 'UTF8') || array_to_string(signed_by, '/')"
                                               " FROM document_draft WHERE cardinality(envelopes) = 1"),
                        "its envelopeext:1");
    assert_string_equal(database_ask(database, "SELECT to_regclass('policy_set')"), "");
}

/* The next test goes back to this table. */
static void the_table_of_then_is_known(void **state)
{
    OWNED(database) *then = database_of_then();
    OWNED(database) *now = database_new();
    char shape[4096];

    (void)state;
    database_execute(now, back);
    (void)snprintf(shape, sizeof shape, "%s", database_ask(then, SHAPE));
    assert_non_null(strstr(shape, "load_detail text"));
    assert_string_equal(database_ask(now, SHAPE), shape);
}

static const char *migration_text(void)
{
    for (size_t i = 0; storage_migrations[i].name != NULL; i++)
        if (strcmp(storage_migrations[i].name, MIGRATION) == 0) return storage_migrations[i].sql;
    fail_msg("there is no migration %s", MIGRATION);
    return NULL;
}

/* The log and sijil-keyd know the sets by the details of their events, and these must still match. */
static void the_set_that_was_in_force_is_in_force_afterwards(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
    install_well(&place, 2);
    assert_int_equal(load(&place, 3), RECORD_DONE); /* the old gateway died before it was pinned */
    database_execute(place.log.database, back);
    database_execute(place.log.database, migration_text());
    start_well(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(pinned(&place), 3);
    OWNED(policy_set) *set = set_in_force(&place);
    assert_int_equal(policy_set_epoch(set), 3);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_then_become_documents),
        cmocka_unit_test(the_table_of_then_is_known),
        cmocka_unit_test(the_set_that_was_in_force_is_in_force_afterwards),
    };

    return cmocka_run_group_tests_name("policy sets of an older database", tests, NULL, NULL);
}

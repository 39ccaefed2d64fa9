#include "audit/dump_store_priv.h"
#include "audit/log_end_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
/* The reader of a dump may be slow, so the transaction may rest. It locks the index of searches now: a TRUNCATE of it (0079) empties it for older transactions,
 * too, and the dump would have an index that knows nothing. */
static const struct pg_statement dump_state_sql = {
    "dump_state",
    "WITH patient AS (SELECT set_config('idle_in_transaction_session_timeout', '0', true), EXISTS (SELECT FROM audit_post),"
    " EXISTS (SELECT FROM audit_dump_blind))"
    " SELECT coalesce(nullif(l.name, ''), l.origin), l.size, l.last_ts, l.frontier, s.indexed, " LOG_HAS_MORE("audit_dump_payload") ","
    " (extract(epoch FROM now()) * 1000)::int8 FROM patient, audit_log l, audit_search s",
    "", "text int8 int8 bytea int8 bool int8"};
static const struct pg_statement dump_facts_sql = {
    "dump_facts", "SELECT digest, facts FROM audit_facts WHERE digest > $1 ORDER BY digest LIMIT 128", "bytea", "bytea bytea"};
static const struct pg_statement dump_archive_sql = { /* pieces have no gap */
    "dump_archive", "SELECT coalesce(max(piece) + 1, 0) FROM audit_archive", "", "int8"};
static const struct pg_statement dump_entries_sql = {
    "dump_entries",
    "SELECT seq, ts, leaf_hash, left(action, 60), left(outcome, 60), substr(leaf, 1, 4097) FROM audit_entry WHERE seq >= $1 AND seq < $2 ORDER BY seq",
    "int8 int8", "int8 int8 bytea text text bytea"};
static const struct pg_statement dump_tiles_sql = {
    "dump_tiles", "SELECT idx, root, hashes FROM audit_tile WHERE level = $1 AND idx >= $2 AND idx < $3 ORDER BY idx", "int4 int8 int8",
    "int8 bytea bytea"};
static const struct pg_statement dump_payloads_sql = {
    "dump_payloads", "SELECT seq, subject, has_key, length FROM audit_dump_payload WHERE seq >= $1 AND seq < $2 ORDER BY seq", "int8 int8",
    "int8 bytea bool int4"};
/* A longer note is not one of sijil-keyd. */
static const struct pg_statement dump_checkpoints_sql = {
    "dump_checkpoints",
    "SELECT size, root, note FROM audit_checkpoint WHERE (size, note) > ($1, $2) AND size <= $3 AND octet_length(note) <= 2048"
    " ORDER BY size, note LIMIT 256",
    "int8 text int8", "int8 bytea text"};
static const struct pg_statement dump_runs_sql = {
    "dump_runs",
    "SELECT key, last, n, coalesce(cardinality(seqs), 0), CASE WHEN cardinality(seqs) <= 65536 THEN"
    " (SELECT string_agg(int8send(u.s), ''::bytea ORDER BY u.place) FROM unnest(seqs) WITH ORDINALITY AS u (s, place)) END"
    " FROM audit_run WHERE (key, last) > ($1, $2) ORDER BY key, last LIMIT 1024",
    "bytea int8", "bytea int8 int8 int4 bytea"};
static const struct pg_statement dump_posts_sql = {
    "dump_posts", "SELECT key, block, substr(list, 1, 513) FROM audit_post WHERE (key, block) > ($1, $2) ORDER BY key, block LIMIT 8192",
    "int8 int8", "int8 int8 bytea"};
static const struct pg_statement dump_blind_sql = {
    "dump_blind",
    "SELECT key, block, substr(list, 1, 513), id, coalesce(subject, ''::bytea) FROM audit_dump_blind WHERE (key, block, id) > ($1, $2, $3)"
    " ORDER BY key, block, id LIMIT 4096",
    "int8 int8 int8", "int8 int8 bytea int8 bytea"};
static const struct pg_statement dump_tags_sql = {
    "dump_tags",
    "SELECT repository_id, name, full_name, manifest_digest FROM audit_dump_tag WHERE (repository_id, name) > ($1, $2)"
    " ORDER BY repository_id, name LIMIT 1024",
    "uuid text", "uuid text text text"};
static const struct pg_statement dump_bindings_sql = {
    "dump_bindings",
    "SELECT binding_id, role, holder, scope, is_live FROM audit_dump_binding WHERE $1 IS NULL OR binding_id > $1 ORDER BY binding_id LIMIT 1024", "uuid",
    "uuid text text text bool"};
static const struct pg_statement dump_persons_sql = {
    "dump_persons", "SELECT user_id, state, person FROM audit_dump_person WHERE person > $1 ORDER BY person LIMIT 4096", "int8", "uuid int4 int8"};
static const struct pg_statement dump_identities_sql = {
    "dump_identities", "SELECT user_id, told IS NOT NULL, identity, person FROM audit_dump_person WHERE person > $1 ORDER BY person LIMIT 4096", "int8",
    "uuid bool bytea int8"};
static const struct pg_statement dump_links_sql = {
    "dump_links", "SELECT user_id, told IS NOT NULL, link, number FROM audit_dump_link WHERE number > $1 ORDER BY number LIMIT 4096", "int8",
    "uuid bool bytea int8"};
static const struct pg_statement dump_groups_sql = {
    "dump_groups", "SELECT group_id, members FROM audit_dump_group WHERE $1 IS NULL OR group_id > $1 ORDER BY group_id LIMIT 256", "uuid", "uuid bytea"};
static const struct pg_statement *const statements[] = {
    &dump_state_sql, &dump_facts_sql, &dump_archive_sql, &dump_entries_sql, &dump_tiles_sql, &dump_payloads_sql, &dump_checkpoints_sql,
    &dump_runs_sql, &dump_posts_sql, &dump_blind_sql, &dump_tags_sql, &dump_bindings_sql,
    &dump_persons_sql, &dump_identities_sql, &dump_links_sql, &dump_groups_sql,
};
/* clang-format on */
const struct pg_table audit_dump_table = PG_TABLE(statements);

struct result dump_load_state(struct pg *pg, struct pg_rows **rows_out, struct error *err)
{
    return pg_run(pg, &dump_state_sql, NULL, rows_out, err);
}

struct result dump_load_facts(struct pg *pg, struct bytes after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, after);
    return pg_run(pg, &dump_facts_sql, &arguments, rows_out, err);
}

struct result dump_load_archive(struct pg *pg, struct pg_rows **rows_out, struct error *err)
{
    return pg_run(pg, &dump_archive_sql, NULL, rows_out, err);
}

static struct result load_range(struct pg *pg, const struct pg_statement *statement, uint64_t first, uint64_t end,
                                struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)end);
    return pg_run(pg, statement, &arguments, rows_out, err);
}

struct result dump_load_entries(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err)
{
    return load_range(pg, &dump_entries_sql, first, end, rows_out, err);
}

struct result dump_load_tiles(struct pg *pg, unsigned level, uint64_t first, uint64_t end, struct pg_rows **rows_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)level);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)end);
    return pg_run(pg, &dump_tiles_sql, &arguments, rows_out, err);
}

struct result dump_load_payloads(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err)
{
    return load_range(pg, &dump_payloads_sql, first, end, rows_out, err);
}

struct result dump_load_checkpoints(struct pg *pg, int64_t size, const char *note, int64_t until, struct pg_rows **rows_out,
                                    struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, size);
    pg_add_text(&arguments, note);
    pg_add_int8(&arguments, until);
    return pg_run(pg, &dump_checkpoints_sql, &arguments, rows_out, err);
}

struct result dump_load_runs(struct pg *pg, struct bytes key, int64_t last, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, key);
    pg_add_int8(&arguments, last);
    return pg_run(pg, &dump_runs_sql, &arguments, rows_out, err);
}

struct result dump_load_posts(struct pg *pg, const struct dump_post_cursor *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after->key);
    pg_add_int8(&arguments, after->block);
    return pg_run(pg, &dump_posts_sql, &arguments, rows_out, err);
}

struct result dump_load_blind(struct pg *pg, const struct dump_post_cursor *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after->key);
    pg_add_int8(&arguments, after->block);
    pg_add_int8(&arguments, after->subject);
    return pg_run(pg, &dump_blind_sql, &arguments, rows_out, err);
}

struct result dump_load_tags(struct pg *pg, const struct uuid *repository, const char *tag, struct pg_rows **rows_out,
                             struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, tag);
    return pg_run(pg, &dump_tags_sql, &arguments, rows_out, err);
}

struct result dump_load_bindings(struct pg *pg, const struct uuid *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, after);
    return pg_run(pg, &dump_bindings_sql, &arguments, rows_out, err);
}

struct result dump_load_persons(struct pg *pg, int64_t after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after);
    return pg_run(pg, &dump_persons_sql, &arguments, rows_out, err);
}

struct result dump_load_told(struct pg *pg, bool links, int64_t after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after);
    return pg_run(pg, links ? &dump_links_sql : &dump_identities_sql, &arguments, rows_out, err);
}

struct result dump_load_groups(struct pg *pg, const struct uuid *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, after);
    return pg_run(pg, &dump_groups_sql, &arguments, rows_out, err);
}

#include "audit/log_check_priv.h"
#include "audit/log_end_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement check_entries_sql = {
    "check_entries",
    "SELECT seq, ts, leaf, leaf_hash, action, outcome FROM audit_entry WHERE seq >= $1 AND seq < $2 ORDER BY seq", "int8 int8",
    "int8 int8 bytea bytea text text"};
/* The runs of a key do not overlap, so only the first run that ends at or after a number can hold it. */
static const struct pg_statement check_keys_sql = {
    "check_keys",
    "SELECT w.seq FROM unnest($1::bytea[], $2::int8[], $3::int8[]) AS w (key, seq, n) WHERE NOT EXISTS (SELECT FROM"
    " (SELECT r.n, r.seqs FROM audit_run r WHERE r.key = w.key AND r.last >= w.seq ORDER BY r.last LIMIT 1) AS f"
    " WHERE f.n - cardinality(f.seqs) + array_position(f.seqs, w.seq) = w.n) LIMIT 1",
    "bytea[] int8[] int8[]", "int8"};
static const struct pg_statement check_tile_sql = {
    "check_tile", "SELECT hashes, root FROM audit_tile WHERE level = $1 AND idx = $2", "int4 int8", "bytea bytea"};
/*
 * The leaf of a released entry is needed for the last run of a key alone, and NULL elsewhere: each entry that has the key is listed under its own ordinal
 * (check_keys), and the ordinals have no gap, so a row too many can only be at the end.
 */
static const struct pg_statement check_runs_sql = {
    "check_runs",
    "SELECT r.key, r.last, r.n, CASE WHEN length(e.leaf) > 0 OR NOT EXISTS (SELECT FROM audit_run a WHERE a.key = r.key AND a.last > r.last)"
    " THEN e.leaf END, r.n - cardinality(r.seqs) = coalesce(p.n, 0) AND r.seqs[cardinality(r.seqs)] = r.last"
    " AND r.seqs[1] > coalesce(p.last, -1) AND r.last < (SELECT size FROM audit_log)"
    " FROM (SELECT * FROM audit_run WHERE (key, last) > ($1, $2) AND (last < $3 OR last >= (SELECT size FROM audit_log))"
    " ORDER BY key, last LIMIT 64) AS r"
    " LEFT JOIN LATERAL (SELECT b.n, b.last FROM audit_run b WHERE b.key = r.key AND b.last < r.last"
    " ORDER BY b.last DESC LIMIT 1) AS p ON true"
    " LEFT JOIN audit_entry e ON e.seq = r.last ORDER BY r.key, r.last",
    "bytea int8 int8", "bytea int8 int8 bytea bool"};
static const struct pg_statement check_notes_sql = {
    "check_notes",
    "SELECT size, CASE WHEN octet_length(note) <= 2048 THEN note ELSE '' END, id, root FROM audit_checkpoint WHERE id > $1 ORDER BY id LIMIT 64",
    "int8", "int8 text int8 bytea"};
static const struct pg_statement check_end_sql = {
    "check_end", "SELECT " LOG_HAS_MORE("audit_payload") " FROM audit_log l", "", "bool"};
static const struct pg_statement check_indexed_sql = {"check_indexed", "SELECT indexed FROM audit_search", "", "int8"};
static const struct pg_statement check_posts_sql = {
    "check_posts", "SELECT p.key, p.list FROM unnest($2::int8[]) AS k (key) JOIN audit_post p ON p.key = k.key AND p.block = $1 ORDER BY p.key",
    "int8 int8[]", "int8 bytea"};
static const struct pg_statement check_blind_sql = {
    "check_blind", "SELECT b.key, s.subject, b.list FROM unnest($2::int8[]) AS k (key) JOIN audit_blind b ON b.key = k.key AND b.block = $1"
    " JOIN audit_subject s ON s.id = b.subject ORDER BY b.key, s.subject",
    "int8 int8[]", "int8 bytea bytea"};
static const struct pg_statement check_size_sql = {"check_size", "SELECT size FROM audit_log", "", "int8"};
static const struct pg_statement check_tags_sql = {
    "check_tags",
    "SELECT repository_id, name, full_name, manifest_digest FROM audit_dump_tag WHERE (repository_id, name) > ($1, $2)"
    " ORDER BY repository_id, name LIMIT 16",
    "uuid text", "uuid text text text"};
static const struct pg_statement check_tag_sql = {
    "check_tag", "SELECT manifest_digest FROM audit_dump_tag WHERE repository_id = $1 AND name = $2", "uuid text", "text"};
static const struct pg_statement check_bindings_sql = {
    "check_bindings",
    "SELECT binding_id, role, holder, scope, coalesce(identity, ''), expires_at FROM audit_dump_binding WHERE is_live AND ($1 IS NULL OR binding_id > $1)"
    " ORDER BY binding_id LIMIT 16",
    "uuid", "uuid text text text text timestamptz"};
static const struct pg_statement check_doubt_row_sql = {"check_doubt_row", "SELECT doubt_row($1, $2)", "uuid int8", "bool"};
static const struct pg_statement check_believed_sql = {
    "check_believed",
    "SELECT NOT EXISTS (SELECT FROM doubted_row WHERE id = $1)"
    " AND (EXISTS (SELECT FROM binding WHERE binding_id = $1) OR EXISTS (SELECT FROM robot WHERE robot_id = $1))",
    "uuid", "bool"};
/* Bytes that were released are read from their region: of the kinds of events that pulls and pushes make, none tells of rights. */
static const struct pg_statement check_likely_sql = {
    "check_likely",
    "SELECT seq FROM audit_entry WHERE seq >= $1 AND seq < $2 AND outcome = 'allowed' AND ((leaf = ''"
    " AND split_part(action, '.', 1) NOT IN ('blob', 'manifest', 'tag', 'upload', 'token', 'audit', 'referrers', 'run', 'copy')) OR position(convert_to($3, 'UTF8') IN leaf) > 0"
    " AND position(convert_to($4, 'UTF8') IN leaf) > 0 AND position(convert_to($5, 'UTF8') IN leaf) > 0) ORDER BY seq DESC LIMIT 64",
    "int8 int8 text text text", "int8"};
static const struct pg_statement check_robots_sql = {
    "check_robots",
    "SELECT robot_id, secret, coalesce(previous, ''), expires_at FROM audit_robot"
    " WHERE ($1 IS NULL OR robot_id > $1) AND ($2 IS NULL OR robot_id = $2) ORDER BY robot_id LIMIT 16",
    "uuid uuid", "uuid text text timestamptz"};
static const struct pg_statement check_logins_sql = {
    "check_logins",
    "SELECT count(*) FILTER (WHERE told IS NOT NULL), count(*) FILTER (WHERE told IS NULL) FROM group_login l WHERE until > now() AND cardinality(groups) > 0"
    " AND NOT EXISTS (SELECT FROM group_login_told t WHERE t.issuer = l.issuer AND t.subject = l.subject)",
    "", "int8 int8"};
static const struct pg_statement check_live_sql = {
    "check_live", "SELECT EXISTS (SELECT FROM audit_dump_binding WHERE binding_id = $1 AND is_live)", "uuid", "bool"};
static const struct pg_statement check_blocks_sql = {
    "check_blocks",
    "SELECT a.block, a.list, b.list, c.list FROM audit_post a JOIN audit_post b ON b.key = $2 AND b.block = a.block"
    " JOIN audit_post c ON c.key = $3 AND c.block = a.block WHERE a.key = $1 AND a.block < $4 ORDER BY a.block DESC LIMIT 8",
    "int8 int8 int8 int8", "int8 bytea bytea bytea"};
static const struct pg_statement check_persons_sql = {
    "check_persons", "SELECT person, user_id, state, told IS NOT NULL, identity FROM audit_dump_person WHERE person > $1 ORDER BY person LIMIT 16", "int8",
    "int8 uuid int4 bool bytea"};
static const struct pg_statement check_person_sql = {
    "check_person", "SELECT state, told IS NOT NULL, identity FROM audit_dump_person WHERE user_id = $1", "uuid", "int4 bool bytea"};
static const struct pg_statement check_links_sql = {
    "check_links", "SELECT number, user_id, told, link FROM audit_dump_link WHERE number > $1 ORDER BY number LIMIT 16", "int8", "int8 uuid int8 bytea"};
static const struct pg_statement check_link_sql = {
    "check_link", "SELECT number, user_id, told, link FROM audit_dump_link WHERE number = $1", "int8", "int8 uuid int8 bytea"};
static const struct pg_statement check_link_of_sql = {"check_link_of", "SELECT number FROM audit_dump_link WHERE told = $1", "int8", "int8"};
static const struct pg_statement check_tellings_sql = {
    "check_tellings",
    "SELECT seq, ts, leaf FROM audit_entry WHERE seq >= $1 AND seq < $2 AND outcome = 'allowed'"
    " AND (action IN ('scim.create', 'scim.change', 'scim.end', 'scim.group') OR action = 'token.mint' AND position(' person='::bytea IN leaf) > 0) ORDER BY seq",
    "int8 int8", "int8 int8 bytea"};
static const struct pg_statement check_groups_sql = {
    "check_groups", "SELECT group_id, members FROM audit_dump_group WHERE $1 IS NULL OR group_id > $1 ORDER BY group_id LIMIT 8", "uuid", "uuid bytea"};
static const struct pg_statement check_group_sql = {
    "check_group", "SELECT members FROM audit_dump_group WHERE group_id = $1", "uuid", "bytea"};
static const struct pg_statement check_makers_sql = {
    "check_makers", "SELECT seq, ts, leaf FROM audit_entry WHERE seq >= $1 AND seq < $2 AND outcome = 'allowed'"
    " AND action IN ('manifest.push', 'manifest.promote', 'binding.create') ORDER BY seq", "int8 int8", "int8 int8 bytea"};
static const struct pg_statement check_removed_tags_sql = {
    "check_removed_tags", "SELECT w.n FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (repository, tag, n)"
    " WHERE NOT EXISTS (SELECT FROM audit_dump_tag t WHERE t.full_name = w.repository AND t.name = w.tag) ORDER BY w.n",
    "text[] text[]", "int8"};
static const struct pg_statement check_removed_bindings_sql = {
    "check_removed_bindings", "SELECT w.n FROM unnest($1::text[]) WITH ORDINALITY AS w (id, n)"
    " WHERE NOT EXISTS (SELECT FROM audit_dump_binding b WHERE b.binding_id = w.id::uuid) ORDER BY w.n",
    "text[]", "int8"};
static const struct pg_statement *const statements[] = {
    &check_entries_sql, &check_keys_sql, &check_tile_sql, &check_runs_sql, &check_notes_sql, &check_end_sql, &check_indexed_sql, &check_posts_sql, &check_blind_sql,
    &check_size_sql, &check_tags_sql, &check_tag_sql, &check_bindings_sql, &check_live_sql, &check_blocks_sql,
    &check_doubt_row_sql, &check_believed_sql, &check_likely_sql, &check_robots_sql, &check_logins_sql,
    &check_persons_sql, &check_person_sql, &check_links_sql, &check_link_sql, &check_link_of_sql, &check_tellings_sql, &check_groups_sql, &check_group_sql,
    &check_makers_sql, &check_removed_tags_sql, &check_removed_bindings_sql,
};
/* clang-format on */
const struct pg_table audit_check_table = PG_TABLE(statements);

/* Of the entries first <= number < end. */
static struct result load_between(struct pg *pg, const struct pg_statement *statement, uint64_t first, uint64_t end,
                                  struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)end);
    return pg_run(pg, statement, &arguments, rows_out, err);
}

struct result check_load_entries(struct pg *pg, uint64_t first, uint64_t count, struct pg_rows **rows_out, struct error *err)
{
    return load_between(pg, &check_entries_sql, first, first + count, rows_out, err);
}

struct result check_find_unexpected_key(struct pg *pg, const struct log_check *check, uint64_t *sequence_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_bytes_array(&arguments, check->keys, check->key_count);
    pg_add_int8_array(&arguments, check->sequences, check->key_count);
    pg_add_int8_array(&arguments, check->ordinals, check->key_count);
    TRY(pg_run(pg, &check_keys_sql, &arguments, &rows, err));
    *sequence_out = pg_rows_count(rows) == 0 ? UINT64_MAX : (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result check_load_tile(struct pg *pg, unsigned level, uint64_t index, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)level);
    pg_add_int8(&arguments, (int64_t)index);
    return pg_run(pg, &check_tile_sql, &arguments, rows_out, err);
}

struct result check_load_runs(struct pg *pg, const struct run_cursor *after, uint64_t size, struct pg_rows **rows_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){after->key, sizeof after->key});
    pg_add_int8(&arguments, after->last);
    pg_add_int8(&arguments, (int64_t)size);
    return pg_run(pg, &check_runs_sql, &arguments, rows_out, err);
}

struct result check_load_notes(struct pg *pg, const struct note_cursor *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after->id);
    return pg_run(pg, &check_notes_sql, &arguments, rows_out, err);
}

struct result check_load_end(struct pg *pg, bool *has_more_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &check_end_sql, NULL, &rows, err));
    *has_more_out = pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result check_load_indexed(struct pg *pg, uint64_t *indexed_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &check_indexed_sql, NULL, &rows, err));
    *indexed_out = pg_rows_count(rows) == 1 ? (uint64_t)pg_int8(rows, 0, 0) : 0;
    return SUCCESS;
}

struct result check_load_posts(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)block);
    pg_add_int8_array(&arguments, keys, count);
    return pg_run(pg, &check_posts_sql, &arguments, rows_out, err);
}

struct result check_load_blind(struct pg *pg, uint64_t block, const int64_t *keys, size_t count, struct pg_rows **rows_out,
                               struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)block);
    pg_add_int8_array(&arguments, keys, count);
    return pg_run(pg, &check_blind_sql, &arguments, rows_out, err);
}

struct result check_load_size(struct pg *pg, uint64_t *size_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &check_size_sql, NULL, &rows, err));
    *size_out = pg_rows_count(rows) == 1 ? (uint64_t)pg_int8(rows, 0, 0) : 0;
    return SUCCESS;
}

struct result check_load_tags(struct pg *pg, const struct tag_cursor *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &after->repository);
    pg_add_text(&arguments, after->tag);
    return pg_run(pg, &check_tags_sql, &arguments, rows_out, err);
}

struct result check_load_tag(struct pg *pg, const struct uuid *repository, const char *tag, struct pg_rows **rows_out,
                             struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, tag);
    return pg_run(pg, &check_tag_sql, &arguments, rows_out, err);
}

struct result check_load_bindings(struct pg *pg, const struct binding_cursor *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, after->has_begun ? &after->id : NULL);
    return pg_run(pg, &check_bindings_sql, &arguments, rows_out, err);
}

struct result check_load_likely(struct pg *pg, const struct check_wanted *wanted, uint64_t first, uint64_t end,
                                struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)end);
    pg_add_text(&arguments, wanted->action);
    pg_add_text(&arguments, wanted->word);
    pg_add_text(&arguments, wanted->also == NULL ? wanted->word : wanted->also);
    return pg_run(pg, &check_likely_sql, &arguments, rows_out, err);
}

struct result check_load_believed(struct pg *pg, const struct uuid *id, bool *is_believed_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &check_believed_sql, &arguments, &rows, err));
    *is_believed_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result check_doubt_row(struct pg *pg, const struct uuid *id, uint64_t sequence, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    pg_add_int8(&arguments, (int64_t)sequence);
    return pg_run(pg, &check_doubt_row_sql, &arguments, NULL, err);
}

struct result check_load_robots(struct pg *pg, const struct binding_cursor *after, const struct uuid *only,
                                struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, after->has_begun ? &after->id : NULL);
    pg_add_uuid(&arguments, only);
    return pg_run(pg, &check_robots_sql, &arguments, rows_out, err);
}

struct result check_load_logins(struct pg *pg, struct pg_rows **rows_out, struct error *err)
{
    return pg_run(pg, &check_logins_sql, NULL, rows_out, err);
}

struct result check_load_live(struct pg *pg, const struct uuid *id, bool *is_live_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &check_live_sql, &arguments, &rows, err));
    *is_live_out = pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result check_load_blocks(struct pg *pg, const int64_t keys[3], int64_t before, struct pg_rows **rows_out,
                                struct error *err)
{
    struct pg_arguments arguments = {0};

    for (size_t i = 0; i < 3; i++) pg_add_int8(&arguments, keys[i]);
    pg_add_int8(&arguments, before);
    return pg_run(pg, &check_blocks_sql, &arguments, rows_out, err);
}

struct result check_load_persons(struct pg *pg, int64_t after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after);
    return pg_run(pg, &check_persons_sql, &arguments, rows_out, err);
}

struct result check_load_person(struct pg *pg, const struct uuid *id, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    return pg_run(pg, &check_person_sql, &arguments, rows_out, err);
}

struct result check_load_groups(struct pg *pg, const struct uuid *after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, after);
    return pg_run(pg, &check_groups_sql, &arguments, rows_out, err);
}

struct result check_load_group(struct pg *pg, const struct uuid *id, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    return pg_run(pg, &check_group_sql, &arguments, rows_out, err);
}

struct result check_load_links(struct pg *pg, int64_t after, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after);
    return pg_run(pg, &check_links_sql, &arguments, rows_out, err);
}

struct result check_load_link(struct pg *pg, int64_t number, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, number);
    return pg_run(pg, &check_link_sql, &arguments, rows_out, err);
}

struct result check_load_link_of(struct pg *pg, uint64_t entry, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)entry);
    return pg_run(pg, &check_link_of_sql, &arguments, rows_out, err);
}

struct result check_load_tellings(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err)
{
    return load_between(pg, &check_tellings_sql, first, end, rows_out, err);
}

struct result check_load_makers(struct pg *pg, uint64_t first, uint64_t end, struct pg_rows **rows_out, struct error *err)
{
    return load_between(pg, &check_makers_sql, first, end, rows_out, err);
}

struct result check_load_removed_tags(struct pg *pg, const struct bytes *repositories, const struct bytes *tags, size_t count,
                                      struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text_array(&arguments, repositories, count);
    pg_add_text_array(&arguments, tags, count);
    return pg_run(pg, &check_removed_tags_sql, &arguments, rows_out, err);
}

struct result check_load_removed_bindings(struct pg *pg, const struct bytes *ids, size_t count, struct pg_rows **rows_out,
                                          struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text_array(&arguments, ids, count);
    return pg_run(pg, &check_removed_bindings_sql, &arguments, rows_out, err);
}

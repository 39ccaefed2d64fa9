#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/own_reads.h"
#include "audit/query_priv.h"
#include "storage/pg_table.h"

#define READ_AHEAD 8 /* events: from here on it is worth another statement */

/* clang-format off */
#define EVENT "SELECT e.seq, e.leaf, p.salt, p.box, s.subject, s.key_version, s.wrapped_key, e.leaf_hash FROM "
#define PAYLOAD " LEFT JOIN audit_payload p ON p.seq = e.seq LEFT JOIN audit_subject s ON s.subject = p.subject "
/* With the range again, so that PostgreSQL can merge both tables instead of looking up each payload. */
#define PAYLOAD_OF_RANGE " LEFT JOIN audit_payload p ON p.seq = e.seq AND p.seq >= $1 AND p.seq < $2 LEFT JOIN audit_subject s ON s.subject = p.subject "
#define COLUMNS "int8 bytea bytea bytea bytea int4 bytea bytea"
/* No run has more than 65,536 sequence numbers, so the runs that can hold a range are found by their last numbers. */
#define RUNS      "audit_run k CROSS JOIN LATERAL unnest(k.seqs) AS i (seq) "
#define ENTRY     "JOIN audit_entry e ON e.seq = i.seq"
#define KEY_RANGE                                                                                     \
    " WHERE k.key = $1 AND k.last >= $2 AND k.last < least($3, 9223372036854710271) + 65536 AND i.seq >= $2" \
    " AND i.seq < $3 "
/* An export of act:... stands under this key, too (docs/formats/audit-export.md), and its actor is the auditor. Its leaf is never released. */
#define OWN  "AND (e.action <> 'audit.export' OR position($5 IN e.leaf) > 0) "
#define UP   "ORDER BY k.last, i.seq LIMIT $4"
#define DOWN "ORDER BY k.last DESC, i.seq DESC LIMIT $4"
/* The runs of a key do not overlap, so only the first run that ends at or after a number can hold it. */
#define OTHER                                                                                          \
    "JOIN LATERAL (SELECT f.seqs FROM audit_run f WHERE f.key = $5 AND f.last >= i.seq ORDER BY f.last" \
    " LIMIT 1) f ON i.seq = ANY (f.seqs) "

/* The sequence numbers of the page come first, in the order of the index; then the columns of these entries. */
static const struct pg_statement audit_list_up_sql = {
    "audit_list_up", EVENT "audit_entry e" PAYLOAD_OF_RANGE "WHERE e.seq >= $1 AND e.seq < $2 ORDER BY e.seq LIMIT $3",
    "int8 int8 int8", COLUMNS};
static const struct pg_statement audit_list_down_sql = {
    "audit_list_down", EVENT "audit_entry e" PAYLOAD_OF_RANGE "WHERE e.seq >= $1 AND e.seq < $2 ORDER BY e.seq DESC LIMIT $3",
    "int8 int8 int8", COLUMNS};
static const struct pg_statement audit_list_key_up_sql = {
    "audit_list_key_up", EVENT RUNS ENTRY PAYLOAD KEY_RANGE UP, "bytea int8 int8 int8", COLUMNS};
static const struct pg_statement audit_list_key_down_sql = {
    "audit_list_key_down", EVENT RUNS ENTRY PAYLOAD KEY_RANGE DOWN, "bytea int8 int8 int8", COLUMNS};
static const struct pg_statement audit_list_own_up_sql = {
    "audit_list_own_up", EVENT RUNS ENTRY PAYLOAD KEY_RANGE OWN UP, "bytea int8 int8 int8 bytea", COLUMNS};
static const struct pg_statement audit_list_own_down_sql = {
    "audit_list_own_down", EVENT RUNS ENTRY PAYLOAD KEY_RANGE OWN DOWN, "bytea int8 int8 int8 bytea", COLUMNS};
static const struct pg_statement audit_list_both_up_sql = {
    "audit_list_both_up", EVENT RUNS OTHER ENTRY PAYLOAD KEY_RANGE UP, "bytea int8 int8 int8 bytea", COLUMNS};
static const struct pg_statement audit_list_both_down_sql = {
    "audit_list_both_down", EVENT RUNS OTHER ENTRY PAYLOAD KEY_RANGE DOWN, "bytea int8 int8 int8 bytea", COLUMNS};
static const struct pg_statement audit_list_numbers_sql = {
    "audit_list_numbers", EVENT "unnest($1::int8[]) WITH ORDINALITY AS i (seq, place) " ENTRY PAYLOAD "ORDER BY i.place", "int8[]", COLUMNS};
static const struct pg_statement audit_read_ahead_sql = {"audit_read_ahead", "SELECT audit_read_ahead($1)", "int8[]", "int8"};
static const struct pg_statement audit_select_facts_sql = {
    "audit_select_facts", "SELECT digest, facts FROM audit_facts WHERE digest = ANY($1) ORDER BY digest", "bytea[]", "bytea bytea"};
static const struct pg_statement audit_count_mints_sql = {
    "audit_count_mints", "SELECT count(*), count(*) FILTER (WHERE position(convert_to('registry:admin:*', 'UTF8') IN leaf) > 0)"
                         ", (SELECT size FROM audit_log) FROM audit_entry"
                         " WHERE action IN ('token.mint', 'run.token') AND outcome = 'allowed' AND seq >= $1 AND seq < $2",
    "int8 int8", "int8 int8 int8"};
static const struct pg_statement *const statements[] = {
    &audit_list_up_sql, &audit_list_down_sql, &audit_list_key_up_sql, &audit_list_key_down_sql, &audit_list_own_up_sql,
    &audit_list_own_down_sql, &audit_list_both_up_sql, &audit_list_both_down_sql, &audit_list_numbers_sql, &audit_read_ahead_sql, &audit_select_facts_sql, &audit_count_mints_sql,
};
/* clang-format on */
const struct pg_table audit_query_table = PG_TABLE(statements);

struct result audit_select(struct pg *pg, const struct audit_selection *selection, struct pg_rows **rows_out, struct error *err)
{
    enum { OF_ONE_ACTOR = 3 }; /* others: by the number of keys */
    static const struct pg_statement *const lists[4][2] = {{&audit_list_down_sql, &audit_list_up_sql},
                                                           {&audit_list_key_down_sql, &audit_list_key_up_sql},
                                                           {&audit_list_both_down_sql, &audit_list_both_up_sql},
                                                           {&audit_list_own_down_sql, &audit_list_own_up_sql}};
    const size_t which = selection->actor != NULL ? OF_ONE_ACTOR : selection->key_count;
    struct pg_arguments arguments = {0};
    char member[96]; /* "actor":"..." as the leaf has it: in a text of the leaf the quotes would be escaped */

    assert(selection->actor == NULL || selection->key_count == 1);

    if (selection->key_count > 0) pg_add_bytes(&arguments, (struct bytes){selection->keys[0], LEAF_KEY_ID_SIZE});
    pg_add_int8(&arguments, (int64_t)selection->from);
    pg_add_int8(&arguments, (int64_t)selection->until);
    pg_add_int8(&arguments, (int64_t)selection->limit);
    if (selection->key_count > 1) pg_add_bytes(&arguments, (struct bytes){selection->keys[1], LEAF_KEY_ID_SIZE});
    if (selection->actor != NULL) {
        (void)snprintf(member, sizeof member, "\"actor\":\"%s\"", selection->actor);
        pg_add_bytes(&arguments, bytes_of_text(member));
    }
    return pg_run(pg, lists[which][selection->ascending ? 1 : 0], &arguments, rows_out, err);
}

struct result audit_select_numbers(struct pg *pg, const int64_t *sequences, size_t count, struct pg_rows **rows_out,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8_array(&arguments, sequences, count);
    if (count >= READ_AHEAD) TRY(pg_run(pg, &audit_read_ahead_sql, &arguments, NULL, err));
    return pg_run(pg, &audit_list_numbers_sql, &arguments, rows_out, err);
}

struct result audit_select_facts(struct pg *pg, const struct bytes *digests, size_t count, struct pg_rows **rows_out,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes_array(&arguments, digests, count);
    return pg_run(pg, &audit_select_facts_sql, &arguments, rows_out, err);
}

void audit_read_row(const struct pg_rows *rows, size_t row, struct audit_row *row_out)
{
    *row_out = (struct audit_row){
        .sequence = (uint64_t)pg_int8(rows, row, 0),
        .leaf = pg_bytes(rows, row, 1),
        .salt = pg_bytes(rows, row, 2),
        .box = pg_bytes(rows, row, 3),
        .subject = pg_bytes(rows, row, 4),
        .key_version = (int32_t)pg_int8(rows, row, 5),
        .wrapped_key = pg_bytes(rows, row, 6),
        .hash = pg_bytes(rows, row, 7),
    };
}

static struct result count_mints(struct pg *pg, int64_t from, int64_t until, struct audit_mints *mints_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, from);
    pg_add_int8(&arguments, until);
    TRY(pg_run(pg, &audit_count_mints_sql, &arguments, &rows, err));
    *mints_out =
        (struct audit_mints){(uint64_t)pg_int8(rows, 0, 0), (uint64_t)pg_int8(rows, 0, 1), (uint64_t)pg_int8(rows, 0, 2)};
    return SUCCESS;
}

struct result audit_count_mints(const struct permit *permit, struct pg *pg, struct audit_mints *mints_out, struct error *err)
{
    assert(permit_resource(permit, ACTION_JOB_READ)->kind == RESOURCE_SYSTEM);
    return count_mints(pg, 0, INT64_MAX, mints_out, err);
}

struct result audit_count_more_mints(struct pg *pg, struct audit_mints *mints, uint64_t *next, uint64_t most, struct error *err)
{
    struct audit_mints more;

    TRY(count_mints(pg, (int64_t)*next, (int64_t)(*next + most), &more, err));
    mints->all += more.all;
    mints->administration += more.administration;
    mints->log_size = more.log_size;
    *next = *next + most < more.log_size ? *next + most : more.log_size;
    return SUCCESS;
}

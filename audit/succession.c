#include "audit/succession.h"

#include <string.h>

#include "audit/audit_store.h"
#include "audit/log_check_priv.h"

/* The newest of the log key's own checkpoints that these entries continue. */
static struct result find_proven(struct log_check *check, struct pg *pg, const struct log_keys *keys, uint64_t *proven_out,
                                 struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    *proven_out = 0;
    TRY(audit_checkpoints_from(pg, 0, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const uint64_t size = (uint64_t)pg_int8(rows, i, 0);
        bool is_signed = false;
        if (size > check->size || size <= *proven_out) continue;
        TRY(log_check_note(check, keys, rows, i, &is_signed, err));
        if (is_signed) *proven_out = size;
    }
    return SUCCESS;
}

static struct result compare(struct log_check *check, const struct keyd_identity *identity, bool *has_all_out, struct error *err)
{
    struct merkle_hash root;

    *has_all_out = identity->log_size == 0;
    if (identity->log_size == 0 || identity->log_size > check->size) return SUCCESS;
    TRY(merkle_root_at(&check->tiles.tiles.source, identity->log_size, &root, err));
    *has_all_out = memcmp(root.bytes, identity->log_root, sizeof root.bytes) == 0;
    return SUCCESS;
}

struct log_ending {
    const struct log_keys *keys;
    const struct keyd_identity *identity;
};

static struct result check_all(struct log_check *check, struct pg *pg, const struct log_ending *ending,
                               struct audit_remains *remains, struct error *err)
{
    struct audit_signing_state state;

    TRY(audit_log_name(pg, &remains->log, err));
    TRY(audit_signing_state(pg, &state, err));
    remains->size = state.frontier.size;
    remains->root = merkle_frontier_root(&state.frontier);
    remains->last_time_ms = state.last_time_ms;
    log_check_against(check, remains->size, &remains->root);
    for (uint64_t index = 0; index * TILE_WIDTH < remains->size; index++) TRY(log_check_tile(check, index, err));
    TRY(compare(check, ending->identity, &remains->has_all, err));
    return find_proven(check, pg, ending->keys, &remains->proven, err);
}

struct result audit_remains_read(const char *conninfo, const struct log_keys *keys, const struct keyd_identity *identity,
                                 struct audit_remains *remains_out, struct error *err)
{
    const struct log_ending ending = {keys, identity};
    const struct pg_table *const tables[] = {&audit_succession_table, &audit_sign_table, &audit_check_table, &audit_tree_table,
                                             NULL};
    struct audit_remains remains = {.size = 0};
    OWNED(log_check) *check = NULL;
    OWNED(pg) *pg = NULL;

    TRY(pg_open(conninfo, tables, &pg, err));
    TRY(log_check_new(pg, &check, err));
    TRY(check_all(check, pg, &ending, &remains, err));
    *remains_out = remains;
    return SUCCESS;
}

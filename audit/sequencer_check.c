/* The check at start, before anything is served: the log in the database must be the one that sijil-keyd signed. */
#include <string.h>

#include "audit/format/checkpoint.h"
#include "audit/log_check_priv.h"
#include "audit/sequencer_priv.h"
#include "audit/succession.h"
#include "base/clock.h"
#include "base/memory.h"

struct result sequencer_refuse_shrunken(uint64_t size, int64_t last_time_ms, uint64_t signed_size, struct error *err)
{
    char last[CLOCK_TEXT_SIZE];

    clock_format(last_time_ms, last);
    return failure(
        err, ERROR_FORKED,
        "sijil-keyd signed %llu events, the log ends at %llu (%s): it was truncated, or restored from an older backup. "
        "Restore all up to %llu (docs/backup.md); if they are lost, two officers sign a new origin (docs/recovery.md)",
        (unsigned long long)signed_size, (unsigned long long)size, last, (unsigned long long)signed_size);
}

static struct result know_keyd(struct sequencer *sequencer, struct keyd_identity *identity_out, struct error *err)
{
    TRY(keyd_identify(sequencer->keyd, identity_out, err));
    if (strcmp(identity_out->origin, sequencer->origin) != 0)
        return failure(err, ERROR_INVALID, "sijil-keyd signs the log \"%.60s\", but this gateway writes \"%.60s\"",
                       identity_out->origin, sequencer->origin);
    TRY(log_key_list_load(&sequencer->log_keys, sequencer->keyd, identity_out, err));
    const struct note_key *first = &sequencer_log_keys(sequencer)->keys[0];
    if (succession_number(first->name, sequencer->origin) == 0)
        return failure(err, ERROR_INVALID, "the key of the log is named \"%.60s\", not after the log", first->name);
    return SUCCESS;
}

static struct result other_log(const struct audit_log_name *log, const char *signed_name, struct error *err)
{
    return failure(
        err, ERROR_FORKED,
        "the database has the log \"%.60s\", and sijil-keyd signs \"%.60s\": end the recovery with sijild --recover, or "
        "restore a database and a folder of sijil-keyd that belong together (docs/recovery.md)",
        log->name, signed_name);
}

/* After a recovery (docs/recovery.md). */
static struct result check_name(const struct sequencer *sequencer, uint64_t size, struct error *err)
{
    struct audit_log_name log;

    TRY(audit_log_name(sequencer->sign_pg, &log, err));
    const char *signed_name = sequencer_log_keys(sequencer)->keys[0].name;
    if (strcmp(log.name, signed_name) != 0) return other_log(&log, signed_name, err);
    if (sequencer->succeeds || size > log.begins || strcmp(log.name, sequencer->origin) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the log \"%.60s\" has no entry that says which log it goes on from: end the recovery with sijild --recover "
                   "(docs/recovery.md)",
                   log.name);
}

/* Rows and tiles must have the root that the log's state has. */
static struct result check_state(struct log_check *check, const struct audit_signing_state *state, struct error *err)
{
    const struct merkle_hash stated = merkle_frontier_root(&state->frontier);
    struct merkle_hash root;

    log_check_against(check, state->frontier.size, &stated);
    TRY(merkle_root_at(&check->tiles.tiles.source, state->frontier.size, &root, err));
    if (merkle_hash_equal(&root, &stated)) return SUCCESS;
    return failure(err, ERROR_FORKED,
                   "the events in the database do not have the root that the log's state has: "
                   "rows were changed. Restore the database (docs/backup.md); nothing is served until then");
}

static struct result check_signed_part(struct log_check *check, const struct keyd_identity *identity, int64_t last_time_ms,
                                       struct error *err)
{
    struct merkle_hash root;

    if (identity->log_size > check->size) return sequencer_refuse_shrunken(check->size, last_time_ms, identity->log_size, err);
    if (identity->log_size == 0) return SUCCESS;
    TRY(merkle_root_at(&check->tiles.tiles.source, identity->log_size, &root, err));
    if (memcmp(root.bytes, identity->log_root, sizeof root.bytes) == 0) return SUCCESS;
    return failure(err, ERROR_FORKED,
                   "the first %llu events of the database are not those that sijil-keyd has "
                   "signed: the log was changed. Restore the database (docs/backup.md); nothing is served until then",
                   (unsigned long long)identity->log_size);
}

/* Checks the tile in which keyd's last signature ends, and all tiles after it. */
static struct result check_tail(struct log_check *check, uint64_t signed_size, struct error *err)
{
    const uint64_t first = signed_size == 0 ? 0 : (signed_size - 1) / TILE_WIDTH;

    for (uint64_t index = first; index * TILE_WIDTH < check->size; index++) TRY(log_check_tile(check, index, err));
    return SUCCESS;
}

/* The key ring of another log must not sign this one. It has another log key, and keyd's ledger has no size for it. */
static struct result check_foreign_note(struct log_check *check, const struct sequencer *sequencer, const char *text,
                                        struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note);
    struct checkpoint checkpoint = {.size = 0};
    struct merkle_hash root;
    struct error why;

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    const bool fits =
        note_read(bytes_of_text(text), note, &why).ok && checkpoint_read(note->text, &checkpoint, &why).ok &&
        strcmp(checkpoint.origin, sequencer_log_keys(sequencer)->keys[0].name) == 0 && checkpoint.size <= check->size &&
        merkle_root_at(&check->tiles.tiles.source, checkpoint.size, &root, &why).ok && merkle_hash_equal(&root, &checkpoint.root);
    free(note);
    if (!fits) return SUCCESS;
    return failure(err, ERROR_FORKED,
                   "sijil-keyd has signed nothing yet, but another key has signed %llu events of this log: "
                   "its key directory is not the one that belongs to the log",
                   (unsigned long long)checkpoint.size);
}

/* A checkpoint that keyd has signed stays valid, even if keyd's folder was later restored from a backup. Other rows prove
 * nothing. */
static struct result check_notes(struct sequencer *sequencer, struct log_check *check, const struct keyd_identity *identity,
                                 const struct pg_rows *rows, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        bool is_signed = false;
        TRY(log_check_note(check, sequencer_log_keys(sequencer), rows, i, &is_signed, err));
        if (!is_signed && identity->log_size == 0) TRY(check_foreign_note(check, sequencer, pg_text(rows, i, 1), err));
    }
    return SUCCESS;
}

struct result sequencer_check_last_time(struct pg *pg, uint64_t size, int64_t last_time_ms, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct leaf leaf;
    struct error why;

    if (size == 0) {
        if (last_time_ms == 0) return SUCCESS;
        return failure(err, ERROR_FORKED, "the log's state was changed: it has a last time, but no event");
    }
    TRY(audit_entry_leaf(pg, size - 1, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_FORKED, "the last entry of the log is missing");
    if (!leaf_read(pg_bytes(rows, 0, 0), &leaf, &why).ok || leaf.time_ms == last_time_ms) return SUCCESS;
    return failure(err, ERROR_FORKED, "the log's state was changed: its last time is not that of its last entry");
}

static struct result check_all(struct sequencer *sequencer, struct log_check *check, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct keyd_identity identity;
    struct audit_signing_state state;

    TRY(know_keyd(sequencer, &identity, err));
    TRY(audit_checkpoints_from(sequencer->sign_pg, identity.log_size + 1, &rows,
                               err)); /* the state is read later, so it covers these rows */
    TRY(audit_signing_state(sequencer->sign_pg, &state, err));
    TRY(check_name(sequencer, state.frontier.size, err));
    TRY(check_state(check, &state, err));
    TRY(check_signed_part(check, &identity, state.last_time_ms, err));
    TRY(check_notes(sequencer, check, &identity, rows, err));
    TRY(check_tail(check, identity.log_size, err));
    TRY(sequencer_check_last_time(sequencer->pg, state.frontier.size, state.last_time_ms, err));
    sequencer->appended_size = sequencer->kept_size = state.frontier.size;
    sequencer->appended_root = merkle_frontier_root(&state.frontier);
    return SUCCESS;
}

struct result sequencer_check_log(struct sequencer *sequencer, struct error *err)
{
    OWNED(log_check) *check = NULL;

    TRY(log_check_new(sequencer->sign_pg, &check, err));
    return check_all(sequencer, check, err);
}

static struct result check_signed_name(struct pg *pg, const struct keyd_identity *identity, struct error *err)
{
    struct audit_log_name log;
    struct note_key key;

    TRY(note_key_read(bytes_of_text(identity->log_vkey), &key, err));
    TRY(audit_log_name(pg, &log, err));
    if (log.name[0] == '\0' || strcmp(log.name, key.name) == 0) return SUCCESS; /* it has no name before the first start */
    return other_log(&log, key.name, err);
}

struct result sequencer_check_identity(const char *conninfo, const struct keyd_identity *identity, struct error *err)
{
    const struct pg_table *const tables[] = {&audit_sign_table, &audit_succession_table, NULL};
    OWNED(pg) *pg = NULL;
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_open(conninfo, tables, &pg, err));
    TRY(audit_read_head(pg, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_FORKED, "the state of the log is missing from the database");
    const char *origin = pg_text(rows, 0, 0);
    if (origin[0] != '\0' && strcmp(origin, identity->origin) != 0)
        return failure(err, ERROR_FORKED,
                       "the database holds the log \"%.60s\", but sijil-keyd signs \"%.60s\": connect to the right ones", origin,
                       identity->origin);
    TRY(check_signed_name(pg, identity, err));
    const uint64_t size = (uint64_t)pg_int8(rows, 0, 1);
    if (identity->log_size > size) return sequencer_refuse_shrunken(size, pg_int8(rows, 0, 2), identity->log_size, err);
    return SUCCESS;
}

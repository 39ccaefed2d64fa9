/*
 * The changes of a session, which run in the transaction of their event, most of them on the sequencer's thread. Each requires the
 * permit of the event, of an action that may do this.
 */
#include <assert.h>
#include <stdio.h>

#include "registry/upload/upload_priv.h"

/* upload.begin is the action of a POST with the whole blob: the same request fills the session and closes it. */
bool upload_permits(enum action action, enum upload_use use)
{
    const bool closes = action == ACTION_UPLOAD_BEGIN || action == ACTION_UPLOAD_COMMIT;

    switch (use) {
    case UPLOAD_CLOSE: return closes;
    case UPLOAD_FILL: return closes || action == ACTION_UPLOAD_WRITE;
    case UPLOAD_LOOK: break;
    }
    return closes || action == ACTION_UPLOAD_WRITE || action == ACTION_UPLOAD_READ;
}

void upload_check(const struct upload *upload, enum upload_use use)
{
    assert(upload->found == SEARCH_FOUND); /* upload_find() or upload_of_begin() took the permit */
    assert(upload_permits(upload->action, use));
}

void upload_require(struct upload *upload, const struct permit *permit, const struct change *change, enum upload_use use)
{
    upload_check(upload, use);
    permit_require(permit, upload->action, &upload->where);
    upload->ran = change;
}

static struct upload_key key_of(const struct upload *upload)
{
    return (struct upload_key){
        .upload = upload->row.upload,
        .repository = upload->where.repository,
        .region = upload->where.region,
        .bound_to = upload->bound_to,
        .secret_hash = upload->secret_hash,
    };
}

static void note_search(struct upload *upload, bool is_found)
{
    upload->found = is_found ? SEARCH_FOUND : SEARCH_MISSED;
}

static struct result run_search(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct upload *upload = (struct upload *)(void *)change; /* its first member */
    const struct upload_key key = key_of(upload);
    bool is_found = false;

    permit_require(permit, upload->action, &upload->where);
    TRY(upload_row_find(pg, &key, &upload->row, &is_found, err));
    note_search(upload, is_found);
    return SUCCESS;
}

static struct result add_search(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct upload *upload = (struct upload *)(void *)change; /* its first member */
    const struct upload_key key = key_of(upload);

    permit_require(permit, upload->action, &upload->where);
    return upload_row_add_find(pg, &key, err);
}

/* If it can't be read, the search stays open, and upload_find() reports the error. */
static void take_search(struct change *change, const struct pg_rows *answer)
{
    struct upload *upload = (struct upload *)(void *)change; /* its first member */
    struct error ignored = {0};
    bool is_found = false;

    if (upload_row_take_find(answer, &upload->row, &is_found, &ignored).ok) note_search(upload, is_found);
}

void upload_search_init(struct upload *upload)
{
    upload->search =
        (struct change){.run = run_search, .add = add_search, .take = take_search, .invalidates = CHANGE_INVALIDATES_NOTHING};
}

static struct result run_save(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct upload_save *save = (const struct upload_save *)(const void *)change; /* its first member */

    upload_require(save->upload, permit, change, UPLOAD_FILL);
    return upload_row_save(pg, &save->upload->row.upload, &save->checkpoint, err);
}

static struct result run_drop(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct upload_save *drop = (const struct upload_save *)(const void *)change; /* its first member */

    upload_require(drop->upload, permit, change, UPLOAD_FILL);
    return upload_row_drop(pg, &drop->upload->row, err);
}

void upload_save_init(struct upload_save *save, struct upload *upload)
{
    *save = (struct upload_save){.change = {.run = run_save, .invalidates = CHANGE_INVALIDATES_NOTHING}, .upload = upload};
}

void upload_drop_init(struct upload_save *drop, struct upload *upload)
{
    *drop = (struct upload_save){.change = {.run = run_drop, .invalidates = CHANGE_INVALIDATES_NOTHING}, .upload = upload};
}

static struct upload_commit_row commit_row(const struct upload_closing *closing, const struct permit *permit)
{
    struct upload *upload = closing->upload;

    upload_require(upload, permit, &closing->change, UPLOAD_CLOSE);
    return (struct upload_commit_row){.where = &upload->where,
                                      .upload = &upload->row,
                                      .key = &closing->closed.key,
                                      .content = &closing->closed.content,
                                      .lease_s = upload->registry->lease_s,
                                      .is_held = upload->is_of_run};
}

static struct result run_commit(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct upload_closing *closing = (struct upload_closing *)(void *)change; /* its first member */
    const struct upload_commit_row row = commit_row(closing, permit);

    return upload_row_commit(pg, &row, &closing->dropped, err);
}

static struct result add_commit(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct upload_commit_row row =
        commit_row((const struct upload_closing *)(const void *)change, permit); /* its first member */

    return upload_row_add_commit(pg, &row, err);
}

static void take_commit(struct change *change, const struct pg_rows *answer)
{
    struct upload_closing *closing = (struct upload_closing *)(void *)change; /* its first member */

    upload_row_take_commit(answer, &closing->upload->row, &closing->dropped);
}

void upload_closing_init(struct upload_closing *closing, struct upload *upload, const struct closed_blob *closed)
{
    char id[UUID_TEXT_SIZE], digest[DIGEST_TEXT_SIZE];

    *closing =
        (struct upload_closing){.change = {.run = run_commit, .take = take_commit, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                .upload = upload,
                                .closed = *closed};
    if (uuid_equal(&closed->key.id, &upload->row.blob))
        closing->change.add = add_commit; /* a copy needs other statements first */
    uuid_format(&upload->row.upload, id);
    digest_format(&closed->content.digest, digest);
    (void)snprintf(closing->detail, sizeof closing->detail, "%s %s", id, digest);
    closing->change.detail = closing->detail; /* the log says which bytes lie where from now on */
}

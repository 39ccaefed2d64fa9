/*
 * Reserves bytes of a project's quota before they arrive. Runs in the sequencer's transaction, like all statements
 * that count bytes: so counts never wait for one another, and none is lost if a process dies.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "registry/quota_store.h"
#include "registry/upload/upload_priv.h"

#define PIECE ((uint64_t)16 << 20) /* reserved at a time for a body of unknown length; one event each */

struct reserve_change {
    struct change change;
    struct upload *upload;
    struct upload_row row; /* a copy of the upload's row, with the new values */
    struct upload_reservation wanted;
};

static struct result run_reserve(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct reserve_change *reserve = (struct reserve_change *)(void *)change; /* its first member */

    upload_require(reserve->upload, permit, change, UPLOAD_FILL);
    reserve->row = reserve->upload->row;
    return upload_row_reserve(pg, &reserve->row, &reserve->wanted, err);
}

bool upload_must_reserve(const struct upload *upload, size_t length)
{
    return upload->row.is_counted && upload_offset(upload) + length > upload->row.reserved;
}

struct result upload_reserve(struct upload *upload, const struct upload_announcement *announced, struct recorder *recorder,
                             struct error *err)
{
    const uint64_t offset = upload_offset(upload), needed = offset + announced->length;
    struct reserve_change change = {.change = {.run = run_reserve, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .upload = upload,
                                    .wanted = {.project = upload->where.project, .needed = needed, .wished = needed}};
    char note[64];

    assert(upload->is_claimed);
    if (!upload->row.is_counted || needed <= upload->row.reserved) return SUCCESS;
    if (needed > INT64_MAX) return quota_is_used_up(err); /* more than any quota, and than the column's type */
    if (announced->more_may_come && announced->length < PIECE) change.wanted.wished = offset + PIECE;
    (void)snprintf(note, sizeof note, "%" PRIu64 " bytes are asked for", change.wanted.wished);
    TRY(upload_record(upload, recorder, OUTCOME_COMPLETED, note, &change.change, err));
    upload->row.reserved = change.row.reserved;
    upload->row.is_counted = change.row.is_counted;
    return SUCCESS;
}

static struct result run_give_back(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct reserve_change *back = (const struct reserve_change *)(const void *)change; /* its first member */

    upload_require(back->upload, permit, change, UPLOAD_FILL);
    return upload_row_give_back(pg, &back->upload->row, back->wanted.wished, err);
}

struct result upload_give_back(struct upload *upload, struct recorder *recorder, struct error *err)
{
    const uint64_t kept = upload->row.checkpoint.offset; /* unsaved bytes do not count, because the client sends them again */
    struct reserve_change change = {.change = {.run = run_give_back, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .upload = upload,
                                    .wanted = {.wished = kept}};
    char note[64];

    if (!upload->is_claimed || !upload->row.is_counted || upload->row.reserved <= kept) return SUCCESS;
    (void)snprintf(note, sizeof note, "%" PRIu64 " bytes are given back", upload->row.reserved - kept);
    TRY(upload_record(upload, recorder, OUTCOME_COMPLETED, note, &change.change, err));
    upload->row.reserved = kept;
    return SUCCESS;
}

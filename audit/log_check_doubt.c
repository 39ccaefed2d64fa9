/* Rows of rights that are not what events tell: gateways believe them no longer. */
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "audit/log_check_priv.h"

#define WINDOW 65536 /* entries that one statement looks through, so that it ends in time */

static struct result look_into_window(struct log_check *check, const struct check_wanted *wanted, uint64_t first, uint64_t *end,
                                      struct check_found *found, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(check_load_likely(check->tiles.pg, wanted, first, *end, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count && !found->is_found; i++)
        TRY(check_look_at(check, (uint64_t)pg_int8(rows, i, 0), wanted, found, err));
    *end = count < CHECK_LIKELY_MAX ? first : (uint64_t)pg_int8(rows, count - 1, 0);
    return SUCCESS;
}

struct result check_find_without_index(struct log_check *check, const struct check_wanted *wanted, struct check_found *found,
                                       struct error *err)
{
    uint64_t end = 0;

    *found = (struct check_found){.is_found = false};
    TRY(check_load_size(check->tiles.pg, &end, err));
    if (wanted->before != 0 && wanted->before < end) end = wanted->before;
    while (end > 0 && !found->is_found) TRY(look_into_window(check, wanted, end > WINDOW ? end - WINDOW : 0, &end, found, err));
    return SUCCESS;
}

/* The event comes first. */
static struct result doubt(struct log_check *check, const char *kind, const struct uuid *id, struct error *err)
{
    struct action_pair pair = {.action = ACTION_RIGHT_DOUBT, .resource.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = NULL;
    char text[UUID_TEXT_SIZE];
    bool is_believed = false;

    TRY(check_load_believed(check->tiles.pg, id, &is_believed, err));
    if (!is_believed) return SUCCESS;
    uuid_format(id, text);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s %s", kind, text);
    TRY(permit_for_job(check->rights->sequencer, &pair, &permit, err));
    return check_doubt_row(check->tiles.pg, id, permit_sequence(permit), err);
}

struct result check_doubt(struct log_check *check, struct row_findings *findings, const char *kind, const struct uuid *id,
                          const char *fault, struct error *err)
{
    char text[UUID_TEXT_SIZE];
    bool is_known = false;

    uuid_format(id, text);
    TRY(check_await_index(check, &is_known, err)); /* somebody may have begun to make the index anew */
    if (!is_known) return SUCCESS;
    check_note_row(findings, kind, text, fault);
    return doubt(check, kind, id, err);
}
